"""Histories of runs, and the checker that judges them.

`history` records `history_event`s in memory, `history_file` on disk.
`checker` judges while they stream by, with `process_check` for each process, `epoch_check` for each
assignment, `partition_check` and `commit_check` over all; `checking_history` does so without storing,
`offset_set` keeps it small. `verdict` is what they found.
"""
