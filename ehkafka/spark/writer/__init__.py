"""`format("ehkafka")` of `df.write` and `df.writeStream`: rows become messages on Kafka or Event Hubs.

On the driver `sink` makes the writer; `options` and `columns` (pure) find what is wrong with a query, and
`destination` looks at topic and broker, before anything runs. On executors a
`task` has its `rows` checked, and `sending` waits, with `patience`, until one of the `producers` that the
worker process keeps has written them all.
"""
