"""Looks at groups' offsets from outside, and moves them: `ehkafka offsets`, `lag`, `owners`, `groups`.

Never joins the group. Commits are read and written by a consumer without membership, never by the admin
client, whose reading ends the process while a coordinator is starting; the broker refuses such a commit to a
group that has members. Nothing moves unless `move` is called with a plan that was looked at.

`view` (pure) shows where a partition is, `blocking` which record its commit waits for, `apart` searches
behind what cannot be read. `plan` (pure) what a move would do, `skipping` (pure) what skipping records would,
`group` is the way to the broker, `moving` carries a plan out, `checkpoints` brings positions in and out of
containers, `compare` and `owners` join what several places say. `members` asks who is in the group, `source`
where checkpoints lie. `cluster` lists the topics and groups of a broker. Called by the command line, on the
main thread.
"""

from __future__ import annotations

from ehkafka.offsets.group import GroupOffsets
from ehkafka.offsets.moving import move
from ehkafka.offsets.plan import Move, Plan, planned
from ehkafka.offsets.view import LagReport, PartitionView

__all__ = ["GroupOffsets", "LagReport", "Move", "PartitionView", "Plan", "move", "planned"]
