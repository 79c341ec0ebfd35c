"""Tasks of one event loop as workers, for `async def` handlers.

`workers` is the pool, `tasks` takes lanes, awaits their calls and hands them in, `loop` is the loop's
thread, woken by a `LoopGate`, `stack` where a suspended call stands.
"""
