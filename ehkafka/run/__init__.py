"""One run, from start to stop: shared by the app, Spark and the drop-in, so below all three.

`options` is what the app was given, `until` when it ends by itself, `reports` what a run says of itself now
and then. `at_least_once`, by an `output_sender`, or `exactly_once` delivers what handlers send over their
`outlets`, and dead letters. `assembly` and `pools` build a run's parts, `runtime` holds them together,
`reach` opens the consumer, `mirroring` and `log_identity` join it with the mirror and with the watch over its
logs, `resetting` takes a group back before it joins; `observation` shows it, `resizing` changes it, `steer/`
acts on keys, partitions and handlers, `signals` and `shutdown` end it, `endings` and `connection_errors` say
why; `liveness` says what only a restart cures, which `health_file` shows to others, and what keeps a run from
its work. `importing` refuses a start while the program is being imported.
"""
