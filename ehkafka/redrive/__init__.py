"""Redrive: dead letters back to where they came from. `ehkafka dlq redrive`.

`redrive` reads them in a consumer group of its own, `order` (pure) merges them as they failed and counts,
`home` sends them, `run` joins these. Above `checks`, so it is no part of `recovery`.
"""
