"""Says who has a partition that is not here, as far as the broker tells. Not from an event loop: it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.checks.target import Target
from ehkafka.offsets.members import members_of
from ehkafka.run.steer.names import parse_head, parse_partition

if TYPE_CHECKING:
    from ehkafka.http.served import Served

ANSWER_S: Final = 3.0


def who_has(served: Served, name: str) -> str:
    """Return a sentence for the partition of a key's or partition's name; empty where nobody knows."""
    head = parse_head(name)
    partition = parse_partition(name) if head is None else head[0]
    if partition is None:
        return ""
    target = Target.of_app(served)
    members = members_of(target, target.group or "", partition.topic, ANSWER_S) or []
    for member in members:
        if partition.partition in member.partitions:
            owner = f"{member.host} ({member.client})"
            return f"Partition {partition.partition} of {partition.topic} is with {owner}."
    return ""
