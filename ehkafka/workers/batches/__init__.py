"""Batches as work: which records go together, and the workers that run them.

`taking` (pure) finds which records of an inbox are the next batch, and when it goes, by its limits; `results`
(pure) what became of its records, key by key; `workers` are the threads, which wait for a coroutine's end.
"""
