"""Processes as workers, for handlers that are bound by the CPU.

In the parent `option` is what a handler says, `workers` the pool, `worker` one thread with its child, `link`
that child, `batch` the records it is given and `run` their way there and back; `posting` sends what they have
sent. `child` is the other side, made from `boot`, with its `outbox` for outputs and `answers` to the parent.
Between them: `pipe` (frames, and claims on records), `message` and `failure` (what travels). `logs` asks in
both whether logging leads anywhere.
"""
