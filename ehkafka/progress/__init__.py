"""Progress: from what is finished to what the group has committed, never ahead of it.

On the poll thread. `saving` turns assignments into positions at the commit tick, with what is finished above
them; `metadata` over `ranges` and `ranges_forms` (pure) is what a commit says beside its offset. `ledger`
(pure) plans what is dirty, at the pace of `pacing`; `committer` sends it by `commits`: a member's consumer, a
consumer outside of the group, or a transaction.
"""
