"""Tasks of one event loop as workers, for `async def` handlers.

`workers` is the pool, `tasks` takes lanes from its `exchange`, awaits their calls and hands them in,
`deadlines` ends those that take too long, `loop` is the loop's thread, woken by a `LoopGate`.
`shared` is a loop for all coroutines of a run, the caller's or the app's, `guests` the
pool on it, `other_loop` explains the errors of objects that belong to another.
"""
