"""Processes as workers, for handlers that are bound by the CPU.

In the parent `option` is what a handler asks for, `workers` the pool, with a thread for each child,
`inbox` what waits for it and what it has, `link` that child, `run` a batch's way there and back. `child` is
the other side, made from `boot`, with its `outbox` for outputs. Between them: `wire` (words, and permits on
records), `message` and `failure` (what travels). `logs` asks in both whether logging leads anywhere.
"""
