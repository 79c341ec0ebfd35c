"""Tasks of one event loop as workers, for `async def` handlers.

`workers` is the pool, `tasks` serve its inboxes and share the loop's time, `deadlines` ends calls that take
too long. `shared` is the loop that coroutines run on, the caller's or the app's, and `other_loop` explains
the errors of objects that belong to another.
"""
