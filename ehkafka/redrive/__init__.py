"""Redrive: dead letters back to where they came from. `ehkafka dlq redrive`.

`redrive` reads them, `order` (pure) merges them as they failed and counts, `writer` sends them, `group` moves
the commits of a consumer group of its own, `run` joins these. Above `checks`, so it is no part of `recovery`.
"""
