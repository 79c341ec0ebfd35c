"""The sum over the members' snapshots: what `App.snapshot` shows in a supervisor. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ehkafka.telemetry.snapshot import Health, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ehkafka.checkpoints.checkpoint import MirrorState
    from ehkafka.telemetry.snapshot import HandlerSnapshot, MemberSnapshot

_COUNTED = tuple(
    f"{name}_records" for name in ("received", "finished", "skipped", "dead_lettered", "returned", "stale")
)


def summed(
    members: Sequence[MemberSnapshot],
    ended: Mapping[str, int],
    *,
    group: str,
    endpoint: str,
    state: str,
    taken_at_s: float,
    uptime_s: float,
    counters: Mapping[str, int],
) -> Snapshot:
    """Return the sum. `ended` are counts of processes that have ended, `counters` those of events."""
    there = [member.snapshot for member in members if member.snapshot is not None]
    counts = Counter(counters)
    for one in there:
        counts.update(one.counters)
    partitions = sorted((p for one in there for p in one.partitions), key=lambda p: p.partition)
    return Snapshot(
        group=group,
        endpoint=endpoint,
        state=state,
        taken_at_s=taken_at_s,
        uptime_s=uptime_s,
        partitions=tuple(partitions),
        counters=dict(counts),
        throttled_s=sum(one.throttled_s for one in there),
        is_throttled=any(one.is_throttled for one in there),
        overdue=tuple(call for one in there for call in one.overdue),
        outliving=tuple(call for one in there for call in one.outliving),
        mirror=_worst(one.mirror for one in there),
        members=tuple(members),
        handlers=_joined_handlers(there),
        token_valid_s=min((s for one in there if (s := one.token_valid_s) is not None), default=None),
        unacknowledged_outputs=_sum(one.unacknowledged_outputs for one in there),
        unacknowledged_messages=_sum(one.unacknowledged_messages for one in there),
        **_polled([one for one in there if one.state == "running"]),
        **{name: ended.get(name, 0) + sum(getattr(one, name) for one in there) for name in _COUNTED},
    )


def _polled(running: Sequence[Snapshot]) -> dict[str, Any]:
    """Return what poll threads know of brokers and group."""
    return {
        "poll_gap_s": max((one.poll_gap_s for one in running), default=0.0),
        "broker_silence_s": max((one.broker_silence_s for one in running), default=0.0),
        "is_cut_off": any(one.is_cut_off for one in running),
        "is_standby": bool(running) and all(one.is_standby for one in running),
        "lost_s": max((one.lost_s for one in running if one.lost_s is not None), default=None),
        "lost_partitions": sum(one.lost_partitions for one in running),
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known; None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _joined_handlers(there: Iterable[Snapshot]) -> tuple[HandlerSnapshot, ...]:
    """Return each handler once, with the sums over the members that run it."""
    found: dict[str, HandlerSnapshot] = {}
    for one in (handler for snapshot in there for handler in snapshot.handlers):
        known = found.get(one.handler)
        found[one.handler] = one if known is None else _sum_of(known, one)
    return tuple(found.values())


def _sum_of(one: HandlerSnapshot, other: HandlerSnapshot) -> HandlerSnapshot:
    counts = zip_longest(one.call_counts, other.call_counts, fillvalue=0)
    return replace(
        one,
        workers=one.workers + other.workers,
        workers_auto=_sum_of_bounds(one.workers_auto, other.workers_auto),
        attempts=dict(Counter(one.attempts) + Counter(other.attempts)),
        call_counts=tuple(map(sum, counts)),
        calls_s=one.calls_s + other.calls_s,
        # Nothing of it runs anywhere.
        is_stopped=one.is_stopped and other.is_stopped,
    )


def _sum_of_bounds(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if one is None or other is None else (one[0] + other[0], one[1] + other[1])


def counts_of(snapshot: Snapshot | None) -> Counter[str]:
    """Return what of a snapshot counts on after its process has ended."""
    return Counter() if snapshot is None else Counter({name: getattr(snapshot, name) for name in _COUNTED})


def joined(healths: Iterable[Health]) -> Health:
    """Return what is wrong with any of them."""
    found = list(healths)
    return Health(
        tuple(reason for one in found for reason in one.reasons),
        tuple(note for one in found for note in one.notes),
    )


def _worst(states: Iterable[MirrorState | None]) -> MirrorState | None:
    """Return the mirror's state where it is worst: one that takes no writes, then what has waited longest."""
    found = [state for state in states if state is not None]
    return max(found, key=lambda state: (state.error is not None, state.behind_s), default=None)
