"""`ehkafka dlq`: dead letters listed, shown and sent back.

`commands` has options and help, `dlq` does it, `text` writes it.
"""
