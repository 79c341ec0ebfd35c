"""Intake: the poll thread, sole owner of the `Consumer`, and what it decides by.

`flow` and `rebalance` are pure; `poll_loop` is the thread; `start` turns start positions into offsets.
"""
