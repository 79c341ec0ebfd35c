"""Lanes: strict order per key, everything else side by side.

The pure core of the engine: a state machine without threads, clock or I/O. `Dispatcher` is its face;
`order` says which records belong to one lane. The simulator drives it single-threaded, the app drives it
from the poll thread and the workers with one lock (see `Dispatcher` for who may call what).
"""
