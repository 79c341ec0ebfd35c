"""`ehkafka offsets`: positions of groups shown and moved.

`commands` has options and help, `offsets` does it, `text` writes it and `output` puts it out.
"""
