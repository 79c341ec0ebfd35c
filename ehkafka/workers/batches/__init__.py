"""Batches as work: which records go together, and the workers that run them.

`plan` (pure) collects a batch and gives its lanes back, `exchange` lets one worker collect at a time,
`workers` are the threads, `loop` the event loop of `async def` handlers, `guest_loop` one that others end.
"""
