"""Reads ranges of offsets, each from a start to an end: places → offsets → messages → Arrow batches.

Pure: `places` (where a range begins and ends, and the range of one partition, a `Piece`), `begin` (a place
→ offsets), `loss` (records that are gone), `anew` (what tells that a topic was recreated), `offset_text`
(positions as JSON), `options` (what a reader tells this room: the topics, the columns, the endpoint, and the
words of its own users). `log` and `log_ids` ask the broker, `client` opens consumers, `reading` reads pieces
and `batches` makes Arrow columns of their records. The room joins no group, commits nothing, and knows
neither Spark nor what becomes of the records: Spark's source and `ehkafka.arrow` use it.
"""
