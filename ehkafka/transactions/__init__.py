"""Exactly once: outputs, dead letters and the group's offsets in one transaction at each commit tick.

`saving` has commits say never less than before, `coverage` (pure) knows which records a commit covers,
`generation` (pure) whether this process may commit at all. `held` keeps outputs until their records are
covered, and takes back what was aborted. `loop` carries out one `request` after another on
`ehkafka-transactions`, over the `producer` of the moment, and tries apart what was in a refused batch, by the
rules of `search` (pure): `handing` hands outputs over; `hanging` is about calls that never return. `refusals`
keeps what is refused until its handler's rules have decided. `committing` is what the committer gives its
positions to.
`probe` tries a transaction where it is not stated that a broker has them.

What was produced cannot leave a transaction, so outputs wait in memory: a tick fixes positions and ranges
first, then what they cover is produced, in the order in which it was put, and committed with them. A
transaction that is aborted leaves no trace, and the next one has all of it again.
"""
