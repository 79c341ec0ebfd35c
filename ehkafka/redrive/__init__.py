"""Redrive: dead letters back to where they came from. `ehkafka dlq redrive`.

`redrive` reads them from a group's commits on, sends them and commits; `order` merges them as they failed. It
uses the reader of `checks` and the sender of `run`, which `recovery` must not import.
"""
