"""`format("ehkafka")` of `df.write` and `df.writeStream`: rows become messages on Kafka or Event Hubs.

On the driver `options` and `columns` find what is wrong before anything runs. Both are pure.
"""
