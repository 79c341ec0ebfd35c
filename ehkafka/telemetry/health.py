"""Health: the reasons why an app is not well, read from a snapshot and the engine's own signs of life."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ehkafka.telemetry.snapshot import Health

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.telemetry.snapshot import PartitionSnapshot, Snapshot
    from ehkafka.workers.attempt_clock import OverdueAttempt

# A poll loop that has not come round for so long is stuck or starved.
POLL_SILENCE_S = 15.0


def health_of(
    snapshot: Snapshot,
    *,
    stuck_s: float,
    unreachable_s: float,
    poll_silence_s: float,
    failure: str | None,
    commit_problem: str | None,
    problems: Iterable[str] = (),
) -> Health:
    """Return what is wrong, each as a sentence that names where; `problems` are some that others found."""
    found = [*_reasons(snapshot, stuck_s, poll_silence_s, failure, commit_problem)]
    if snapshot.state == "running":
        found += _group_reasons(snapshot, unreachable_s)
    return Health((*found, *problems), tuple(_notes(snapshot)))


def _reasons(
    snapshot: Snapshot, stuck_s: float, poll_silence_s: float, failure: str | None, commit_problem: str | None
) -> Iterator[str]:
    if failure is not None:
        yield failure
    elif snapshot.state != "running":
        yield f"The app is {snapshot.state}."
    elif poll_silence_s > POLL_SILENCE_S:
        yield f"The poll loop has not run for {poll_silence_s:.0f} s."
    if commit_problem is not None:
        yield f"The last commit failed: {commit_problem}"
    yield from map(_overdue_reason, snapshot.overdue)
    for partition in snapshot.partitions:
        yield from _partition_reasons(partition, stuck_s)


def _group_reasons(snapshot: Snapshot, unreachable_s: float) -> Iterator[str]:
    if snapshot.broker_silence_s >= unreachable_s:
        since = _clock_time(snapshot.taken_at_s - snapshot.broker_silence_s)
        yield (
            f"No broker of {snapshot.endpoint} has answered since {since}, for "
            f"{snapshot.broker_silence_s:.0f} s (limit unreachable_s={unreachable_s:g}). Check that the "
            "brokers run and that this host still reaches them; the app recovers when one answers."
        )
    lost_s = snapshot.lost_s
    if lost_s is not None and lost_s >= unreachable_s:
        number = snapshot.lost_partitions
        were = "1 partition was" if number == 1 else f"{number} partitions were"
        yield (
            f"{were} lost and none came back since {_clock_time(snapshot.taken_at_s - lost_s)} "
            f"({lost_s:.0f} s). If the brokers answer, see who holds them: "
            f"ehkafka owners TOPIC --group {snapshot.group}."
        )


def _notes(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.is_standby:
        yield (
            f"standby: group {snapshot.group!r} has given this member no partition; it takes over when "
            "another member leaves."
        )


def _clock_time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S UTC")


def _partition_reasons(partition: PartitionSnapshot, stuck_s: float) -> Iterator[str]:
    if partition.parked_full_key is not None:
        yield (
            f"The share of {partition.partition} in the parked budget is full: {partition.parked_records} "
            f"records, most of them of key {partition.parked_full_key}."
        )
    if partition.standstill_s >= stuck_s:
        yield (
            f"{partition.partition} lags {partition.lag_records} records behind, and nothing of them has "
            f"arrived for {partition.standstill_s:.0f} s (limit stuck_s={stuck_s:g}). See whether its leader "
            "is up, and whether a producer left a transaction open there."
        )
    oldest = partition.oldest
    if oldest is None:
        return
    # Its handler may take so long: until then it is slow, and not stuck.
    stuck_s += oldest.deadline_s
    where = f"{partition.partition}@{oldest.offset}, key {oldest.key}"
    if oldest.is_on_hold:
        yield f"{where} is on hold after {oldest.attempts} attempts: {oldest.state}"
    elif oldest.age_s > stuck_s:
        failed = (
            f" Attempts that failed: {oldest.attempts}, the last one of {oldest.last_error}"
            if oldest.attempts
            else ""
        )
        yield (
            f"{where} has been unfinished for {oldest.age_s:.0f} s ({oldest.state}; limit {stuck_s:.0f} s)."
            f"{failed}"
        )


def _overdue_reason(attempt: OverdueAttempt) -> str:
    return (
        f"{attempt.partition}@{attempt.offset}, key {attempt.key}: attempt {attempt.attempt} has run for "
        f"{attempt.running_s:.0f} s in handler {attempt.handler!r} (deadline_s={attempt.deadline_s:g}). "
        f"Its key and {attempt.worker} wait; the log has the stack."
    )
