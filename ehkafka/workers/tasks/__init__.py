"""Tasks of one event loop as workers, for `async def` handlers.

`workers` is the pool, `tasks` serve the inboxes and await their calls, `rounds` shares the loop's time among
them, `deadlines` ends calls that take too long, `loop` makes the loop and knows who ended it.
`shared` is a loop that coroutines run on, the caller's or the app's, `other_loop` explains the errors of
objects that belong to another.
"""
