"""Health: the reasons why an app is not well, read from a snapshot and the engine's own signs of life."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ehkafka.events.partition import way_past
from ehkafka.telemetry.snapshot import Health
from ehkafka.wording import clock_time, counted, ended
from ehkafka.wording.line import cannot_read, names, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.records import TopicPartition
    from ehkafka.telemetry.snapshot import (
        OutlivingCall,
        PartitionSnapshot,
        Snapshot,
        Unfinished,
        Unreadable,
    )
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
    """Return what is wrong, each as a sentence that names where; `problems` are some that others found.

    A record is one problem, whatever is wrong with it, and whatever follows from that for its partition.
    """
    problems = tuple(problems)
    found = [*_reasons(snapshot, poll_silence_s, failure, commit_problem)]
    found += _record_reasons(snapshot, stuck_s, problems)
    if snapshot.state == "running":
        found += _group_reasons(snapshot, unreachable_s)
        found += _leader_reasons(snapshot, unreachable_s)
    return Health((*found, *problems), tuple(_notes(snapshot)))


def _reasons(
    snapshot: Snapshot, poll_silence_s: float, failure: str | None, commit_problem: str | None
) -> Iterator[str]:
    if failure is not None:
        yield failure
    elif snapshot.state != "running":
        yield f"The app is {snapshot.state}."
    elif poll_silence_s > POLL_SILENCE_S:
        yield f"The poll loop has not run for {poll_silence_s:.0f} s."
    if commit_problem is not None:
        yield f"The last commit failed: {commit_problem}"


def _record_reasons(snapshot: Snapshot, stuck_s: float, problems: tuple[str, ...]) -> Iterator[str]:
    calls = {(call.partition, call.offset): call for call in snapshot.overdue}
    outliving = {(call.partition, call.key): call for call in snapshot.outliving if call.is_stuck}
    for left in outliving.values():
        calls.pop((left.partition, left.offset), None)  # the same call
        yield _outliving_reason(left)
    for partition in snapshot.partitions:
        oldest, reason = partition.oldest, ""
        if partition.unreadable is not None:
            yield _unreadable_reason(partition.partition, partition.unreadable, snapshot.group)
        if oldest is not None:
            call = calls.pop((partition.partition, oldest.offset), None)
            reason = _oldest_reason(partition.partition, oldest, call, stuck_s, snapshot.group)
            # Such as that its dead letter is not acknowledged: the same problem, and its cause.
            if oldest.status == "waiting: earlier call" and (partition.partition, oldest.key) in outliving:
                reason = ""  # likewise
            if any(f"{partition.partition}@{oldest.offset} " in problem for problem in problems):
                reason = ""
        yield from _partition_reasons(partition, reason, stuck_s, snapshot.group)
    yield from map(_overdue_reason, calls.values())


def _group_reasons(snapshot: Snapshot, unreachable_s: float) -> Iterator[str]:
    if snapshot.broker_silence_s >= unreachable_s:
        since = clock_time(snapshot.taken_at_s - snapshot.broker_silence_s)
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
            f"{were} lost, and none has come back since {clock_time(snapshot.taken_at_s - lost_s)} "
            f"({lost_s:.0f} s). If the brokers answer, find the owners of the partitions: ehkafka owners "
            f"TOPIC --group {snapshot.group}."
        )


def _leader_reasons(snapshot: Snapshot, unreachable_s: float) -> Iterator[str]:
    """Yield each leader that tells nothing of its partitions, unless no broker answers at all."""
    if snapshot.is_cut_off:
        return
    silent: defaultdict[str, list[PartitionSnapshot]] = defaultdict(list)
    for one in snapshot.partitions:
        if one.log_age_s is not None and one.log_age_s >= unreachable_s:
            silent[one.leader or "their leader"].append(one)
    for leader, partitions in silent.items():
        silent_s = max(one.log_age_s or 0.0 for one in partitions)
        yield (
            f"{names(one.partition for one in partitions)}: {leader} has not answered since "
            f"{clock_time(snapshot.taken_at_s - silent_s)}, for {silent_s:.0f} s (limit "
            f"unreachable_s={unreachable_s:g}). The lag is unknown. Check that this broker runs, that it "
            f"leads these partitions, and that this host reaches it."
        )


def _notes(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.is_standby:
        yield (
            f"standby: group {snapshot.group!r} has no partition for this member, which takes over when "
            f"another member leaves."
        )
    yield from (_outlives(call) for call in snapshot.outliving if not call.is_stuck)


def _outliving_reason(call: OutlivingCall) -> str:
    where = f"{call.partition.topic}/{call.partition.partition}@{call.offset}"
    return f"{_outlives(call)} If the call never returns, let the key continue: ehkafka keys skip {where}"


def _outlives(call: OutlivingCall) -> str:
    return (
        f"{call.partition}@{call.offset}, key {call.key}: a call of handler {call.handler!r} still runs "
        f"from an earlier assignment of the partition (epoch {call.epoch}), {call.age_s:.0f} s after the "
        f"record was received. The next records of this key wait for the call."
    )


def _partition_reasons(
    partition: PartitionSnapshot, reason: str, stuck_s: float, group: str
) -> Iterator[str]:
    """Yield what is wrong with a partition; `reason` is what is wrong with its oldest record."""
    if partition.parked_full_key is not None:
        full = (
            f"{partition.partition} has reached its limit of {records(partition.parked_records)} waiting "
            f"behind failed ones; key {partition.parked_full_key} has the most."
        )
        if reason and partition.oldest is not None and partition.oldest.key == partition.parked_full_key:
            reason = f"{reason} {full}"
        else:
            yield full
    if partition.deleted_records:
        yield (
            f"Retention has deleted {records(partition.deleted_records)} of {partition.partition} before "
            f"they were read, because the partition is paused. To lose no more records, resume the partition."
        )
    if reason:
        yield reason
    elif partition.standstill_s >= stuck_s and partition.unreadable is None:
        yield (
            f"{partition.partition} has a lag of {records(partition.lag_records or 0)}, and no record has "
            f"arrived for {partition.standstill_s:.0f} s (limit stuck_s={stuck_s:g}). Check that the "
            f"partition's leader is up, and that no producer left a transaction open. Otherwise the next "
            f"batch is broken: run {way_past(partition.partition, partition.watermark or 0, group)}"
        )


def _oldest_reason(
    partition: TopicPartition, oldest: Unfinished, call: OverdueAttempt | None, stuck_s: float, group: str
) -> str:
    """Say what is wrong with the record that a partition's commit waits for; empty where nothing is."""
    where = f"{partition}@{oldest.offset}, key {oldest.key}"
    if oldest.is_on_hold:
        return f"{where} is on hold after {counted(oldest.attempts, 'attempt')}: {ended(oldest.state)}"
    past = ""
    if oldest.is_stuck and oldest.status == "running":
        past = (
            " If the call never returns, stop the group's consumers, then run "
            f"{way_past(partition, oldest.offset, group)}"
        )
    if call is not None:
        return f"{_overdue_reason(call)} Commits wait for this record.{past}"
    if not oldest.is_stuck:
        return ""
    failed = (
        f" Failed attempts: {oldest.attempts}, the last with {ended(oldest.last_error)}"
        if oldest.attempts
        else ""
    )
    limit_s = stuck_s + oldest.deadline_s
    return (
        f"{where} has been unfinished for {oldest.age_s:.0f} s ({oldest.state}; limit {limit_s:.0f} s)."
        f"{failed}{past}"
    )


def _unreadable_reason(partition: TopicPartition, unreadable: Unreadable, group: str) -> str:
    what = cannot_read(f"{partition}@{unreadable.offset}", unreadable.reason, is_batch=unreadable.is_batch)
    lasts = f"{what} No record after this offset has been received for {unreadable.lasts_s:.0f} s."
    if not unreadable.is_batch:
        return f"{lasts} See the log of the partition's leader."
    past = way_past(partition, unreadable.offset, group)
    return f"{lasts} If the batch stays broken, stop the app, run {past}, and start the app again."


def _overdue_reason(attempt: OverdueAttempt) -> str:
    return (
        f"{attempt.partition}@{attempt.offset}, key {attempt.key}: attempt {attempt.attempt} has run for "
        f"{attempt.running_s:.0f} s in handler {attempt.handler!r} (deadline_s={attempt.deadline_s:g}). "
        f"The key and {attempt.worker} wait; the log has the call's stack."
    )
