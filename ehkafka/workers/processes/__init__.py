"""Processes as workers: `option` is what a handler says, `workers` the pool, `child` the other side."""
