"""What runs in Spark's executors: an app's handlers over one task's records.

`shipment` is what goes there, `reader` the source that reads and handles in the same task. `work` takes a
task's records through inboxes, workers and recovery, `partition_work` those of one partition; `outputs` sends
what handlers make of them, by a sender that is kept between tasks. `watch` looks at a task now and then,
`results` are its rows. `leaving` ends a worker that left a handler running, `last_tasks` waits on the driver
for those of a query that has ended.
"""
