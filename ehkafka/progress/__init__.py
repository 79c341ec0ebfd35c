"""Progress: from what is finished to what the group has committed, never ahead of it.

On the poll thread. `saving` turns assignments into positions at the commit tick, with what is finished out of
order; `metadata` over `ranges` and `ranges_forms` (pure) is the text of a commit. `ledger` (pure) plans what
is dirty, at the pace of `pacing`; `committer` sends it by `commit_transports`: a member's consumer, a
consumer outside of the group, or a transaction.
"""
