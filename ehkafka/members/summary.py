"""What `App.snapshot` shows in a supervisor: its members' snapshots in one, as each field declares. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ehkafka.telemetry.joins import counts, joined
from ehkafka.telemetry.snapshot import COUNTED, Health, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ehkafka.telemetry.snapshot import MemberSnapshot


def summed(
    members: Sequence[MemberSnapshot], ended: Mapping[str, int], counters: Mapping[str, int], **own: Any
) -> Snapshot:
    """Return all in one, with the supervisor's `own` fields.

    `ended` are counts of processes that have ended, `counters` those of events.
    """
    found = joined([member.snapshot for member in members if member.snapshot is not None])
    found |= {name: found.get(name, 0) + ended.get(name, 0) for name in COUNTED}
    found["counters"] = counts([counters, found.get("counters", {})])
    return Snapshot(members=tuple(members), **found | own)


def counts_of(snapshot: Snapshot | None) -> Counter[str]:
    """Return what of a snapshot counts on after its process has ended."""
    return Counter() if snapshot is None else Counter({name: getattr(snapshot, name) for name in COUNTED})


def joined_health(healths: Iterable[Health]) -> Health:
    """Return what is wrong with any of them."""
    found = list(healths)
    return Health(
        tuple(reason for one in found for reason in one.reasons),
        tuple(note for one in found for note in one.notes),
    )
