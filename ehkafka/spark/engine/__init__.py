"""The engine on Spark: an app's handlers run inside the tasks that read its records.

`app_parts` and `shipment` say what of an app goes to the executors, `refusals` what cannot; `work` runs a
task's records through the same lanes, workers and failure policies as the local engine; `reader` is the
source that does so for a query; `group` holds the consumer group's offsets on the driver, `run` starts a
query, `follow` watches it and commits each finished batch.

On executors: `work`, `results`, and what they use of a shipment. All else is the driver's. Nothing here joins
the group, and nothing polls for it.
"""
