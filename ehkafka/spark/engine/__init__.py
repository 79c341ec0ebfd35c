"""The engine on Spark: an app's handlers run inside the tasks that read its records.

`app_parts` and `shipment` say what of an app goes to the executors, `refusals` what cannot, `way_in` how they
find the broker; `work` and `partition_work` run a task's records through the same lanes, workers and failure
policies as the local engine; `reader` is the source that does so for a query. On the driver `start` starts
one, `group` holds the consumer group's offsets, `hand_over` and `checkpoint_folder` say whether a checkpoint
still stands where the group does, `run_thread` answers for the group from then on and starts the query,
`batches` runs each batch as one action and fails it for what a policy has stopped, `follow` commits each
batch that `query_progress` tells of and ends when `last_tasks` says that no task runs any more, `told` says
so now and then, `run` is what the caller holds.

On executors: `work`, which `task_watch` looks at now and then, `results`, `leaving` (the end of a worker
whose task left handlers running), and what they use of a shipment. All else is the driver's. Nothing here
joins the group, and nothing polls for it.
"""
