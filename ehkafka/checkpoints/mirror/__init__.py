"""The mirror: writes into a store what the broker has acknowledged, and who owns what.

`mirror` is the thread, `work` what it does with the store, `side_by_side` for several blobs at a time. Pure:
`book` (what is owed, and what may be replaced), `owners` (when to say so again), `outage` (how long to leave
a store alone), `body` (the JSON), `foreign` (whose blob it is, and whether its ranges count for the group's
commit).
"""
