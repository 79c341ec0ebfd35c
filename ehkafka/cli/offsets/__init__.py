"""`ehkafka offsets`: positions of groups shown and moved.

`commands` has options and help, `offsets` does it and `skip` plans its part, `text` writes it and
`output` puts it out.
"""
