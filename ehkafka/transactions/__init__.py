"""Exactly once: outputs, dead letters and the group's offsets in one transaction at each commit tick.

`committing` takes the committer's positions, if this process may commit, and makes a request of them; `loop`
carries out one request after another in the thread `ehkafka-transactions`. `saving` makes positions that
never contain less than the ones before; `coverage` (pure) tells which records a position covers. `held` keeps
outputs until a transaction covers their records, and takes them back after an abort. `producer` is the
client, and its successors; `handing` hands outputs to it, and `hanging` ends the wait for its calls that
never return, and counts only time in which this process ran. After a refusal `loop` sends the outputs of the
refused batch again in smaller batches, to find the refused ones. `refusals` keeps these until their handler's
rules have decided. `group_commits` knows the newest commits, so that no epoch begins at an older one. `probe`
tries a transaction on a service that may lack them.

A message cannot be taken out of a transaction, so outputs wait in memory. A tick first fixes positions and
ranges; then the outputs of the covered records are produced, in the order of their puts, and committed with
them. An aborted transaction has no effect, and the next one sends all of its outputs again.
"""
