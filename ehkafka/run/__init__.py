"""One run, from start to stop: shared by the app, Spark and the drop-in, so below all three.

`run` is what an app holds, `options` what it was given. `runtime` is the run in this process, of parts that
`assembly` joins: `connection` (opened by `reach`, with its `connection_errors`), `routes` (the handlers, with
`pools` of workers and their `resizing`), `sending` (over an `output_sender` `at_least_once`, or
`exactly_once`), `mirroring`, `log_identity` and `start_stop` (the app's own functions). `ending` says until
when it goes on and why it ends, `shutdown` ends it, `resetting` takes a group back before it joins.
`observation` shows it, `reports` does so unasked, `health_file` shows others that it is live; `steer/` acts
on keys, partitions and handlers. `signals` is what comes from outside of the program.
"""
