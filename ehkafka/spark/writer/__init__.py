"""`format("ehkafka")` of `df.write` and `df.writeStream`: rows become messages on Kafka or Event Hubs.

On the driver `sink` makes the writer and looks at topic and broker; `options` and `columns` (pure) find what
is wrong with a query before anything runs. On executors `sending` has a task's `rows` checked and waits, with
`patience`, until one of the `producers` that the worker process keeps has written them all.
"""
