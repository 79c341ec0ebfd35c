"""`format("ehkafka")` of `df.write` and `df.writeStream`: rows become messages on Kafka or Event Hubs.

On the driver `sink` makes the writer and looks at topic and broker; `options` (pure) finds what is wrong with
a query before anything runs. On executors `sending` has a task's `rows` checked, sends them, and waits until
the broker has written them all. `first_rows` (pure) finds the row of each partition that goes first.
"""
