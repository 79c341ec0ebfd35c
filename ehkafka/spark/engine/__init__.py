"""The engine on Spark: an app's handlers run inside the tasks that read its records.

`app_checks` says what of an app cannot be there. On the driver `start` begins a run and `command` does so for
`ehkafka run`; `group/` holds the consumer group's offsets, `checkpoint_folder` says where the last query got
to. `batches` runs each batch as one action, fails it for what a policy has stopped, and reads a query's
progress; `follow` commits each batch that was reported, `failures` makes one sentence of what went wrong,
`run` is what the caller holds. `signs` are what the driver and the process that plans tell each other.

`tasks/` run in the executors, all else on the driver. Nothing here joins the group, and nothing polls for it.
"""
