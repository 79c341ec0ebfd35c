"""`ehkafka offsets`: positions of groups shown and moved.

`moves` are its commands by hand, `checkpoints` those about other clients; `plans` is what both use.
"""
