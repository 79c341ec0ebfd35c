"""Positions: where a partition begins, and whose log that is.

`start` checks what a user wrote, and `finder` joins it with the group's commit and the mirror
(`without_commit`, `mirror_start`). `restore` says what is not handled again, `log_bounds` asks what the log
still holds and the group has committed, `gap` (pure) says what follows where the log does not hold a
position, or is another one, `log_states` (pure) since when that is known. `first_counts` knows which
partitions are new; `same_log` (pure) tells logs apart by what `topic_ids` and `witness` say. `log_asker` asks
for all of this on a thread; `empty_tails` finds logs whose last records are gone, `next_readable` the way
past batches that cannot be read, both by `client_fetches`, which knows when a fetch has brought nothing. Used
by the poll loop, and by checks, offsets, the drop-in and Spark, which know no poll loop.
"""
