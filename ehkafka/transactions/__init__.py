"""Exactly once: outputs, dead letters and the group's offsets in one transaction at each commit tick.

`saving` has commits say never less than before, `coverage` (pure) knows which records a commit covers,
`generation` (pure) whether this process may commit at all. `book` keeps outputs until their records are
covered. `loop` carries out one transaction after another on `ehkafka-transactions`, over the `producer` of
the moment: `sending` hands outputs over, and a `trial` finds out which of them the broker refuses; `hanging`
is about calls that never return; `refusals` keeps these until their handler's rules have decided. `letters`
are dead letters as outputs. `committing` is what the committer gives its positions to. `probe` tries a
transaction where nobody has stated that a broker has them.

What was produced cannot leave a transaction, so outputs wait in memory: a tick fixes positions and ranges
first, then what they cover is produced, in the order of its making, and committed with them. A transaction
that is aborted leaves no trace but in the book, and the next one has all of it again.
"""
