"""The consumer group of a query: where it begins, whose it is, what is committed.

`group` is the way to it and refuses a second run of this process: `reach` (options of its clients), `begins`,
`hand_over` (whether the checkpoint still stands where the group does). `run_commits` makes the first commit,
those of finished batches and the last, each with the tag of its run; `ownership` reads them again and again
and ends a run whose group was moved.
"""
