"""Intake: the poll thread, sole owner of the `Consumer`, and what it decides by.

`flow` and `epochs` are pure; `poll_loop` is the thread. Where a partition begins is `positions`' business.
"""
