"""Batches as work: which records go together, and the workers that run them.

`share` is what a batch is made of, `due` (pure) says when it goes, `plan` (pure) collects it and gives its
lanes and chunks back, `exchange` lets one worker collect at a time, `turn` says which, `workers` are the
threads, `loop` the event loop of `async def` handlers, `guest_loop` one that others end.
"""
