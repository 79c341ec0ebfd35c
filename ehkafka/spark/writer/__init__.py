"""`format("ehkafka")` of `df.write` and `df.writeStream`: rows become messages on Kafka or Event Hubs.

On the driver `options` and `columns` find what is wrong before anything runs; both are pure. On executors a
`task` has its `rows` checked, and `sending` waits, with `patience`, until one of the `producers` that the
worker process keeps has written them all.
"""
