"""One run, from start to stop: shared by the app, Spark and the drop-in, so below all three.

`run` is what an app holds, `options` what it was given, `spark_options` what a query on Spark is given.
`runtime` is the run in this process, of parts that `assembly` joins: `connection` (opened by `reach`),
`routes` (the handlers, with `pools` of workers and their `resizing`), `sending` (`at_least_once`, or
`exactly_once`), `mirroring`, `log_identity` and `start_stop` (the app's own functions). `ending` says until
when it goes on and why it ends, `shutdown` ends it, `resetting` takes a group back before it joins.
`observation` shows and reports it, `health_file` shows others that it is live; `steer/` acts on keys,
partitions and handlers. `signals` is what comes from outside of the program.
"""
