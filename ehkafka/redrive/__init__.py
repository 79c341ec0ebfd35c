"""Redrive: dead letters back to where they came from. `ehkafka dlq redrive`.

`redrive` reads them from a group's commits on, sends them and commits; `order` merges them as they failed. By
the reader of `checks` and the sender of `run`, so it is no part of `recovery`.
"""
