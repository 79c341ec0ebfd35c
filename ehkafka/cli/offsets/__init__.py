"""`ehkafka offsets`: positions of groups shown and moved."""
