"""Every metric, once: its name, kind, unit, labels, and where in a snapshot its value stands. Pure.

Base units are written out at the end of a name. All metrics have the label `group`, and with a supervisor
`member`; none has a key for a label, for there are millions. What is not known is None, and has no series: a
false lag of 0 would hide the worst. `docs/reference/metrics.md` has the same list, with when to worry. A new
metric is a field of the snapshot, its value in `run.observation` (of a partition in `picture`), and its line
here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

from ehkafka.workers.call_times import BOUNDS_S

if TYPE_CHECKING:
    from ehkafka.telemetry.snapshot import HandlerSnapshot, MemberSnapshot, PartitionSnapshot, Snapshot

Of = TypeVar("Of")
Kind = Literal["counter", "gauge", "histogram"]
COMMON_LABELS: Final = ("group", "member")
OF_PARTITION: Final = ("topic", "partition")
UNITS: Final = ("seconds", "bytes", "records")


class Buckets(NamedTuple):
    """A histogram's value: one count for each bucket and one for what lies above, and the sum."""

    counts: tuple[int, ...]
    total: float


# A number, or one for each value of the label `by`; None: not known.
Value = float | Mapping[str, float] | Buckets | None


@dataclass(frozen=True, slots=True)
class Metric(Generic[Of]):
    """One metric: what `read` finds in a snapshot, or in its part for one partition, handler or member.

    `meaning` is the help text. `own_labels` are added to the `COMMON_LABELS`; `by` is one more, where `read`
    gives a number for each of its values. `buckets` are upper ends, in the unit.
    """

    name: str
    kind: Kind
    meaning: str
    read: Callable[[Of], Value]
    own_labels: tuple[str, ...] = ()
    by: str | None = None
    buckets: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """What its name ends with, `_total` left aside; empty for a mere number."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in UNITS else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in addition to the common ones."""
        return self.own_labels if self.by is None else (*self.own_labels, self.by)


def _field(name: str, meaning: str, *labels: str) -> Metric[Any]:
    """Return the metric of the field that its name says: without `_total`, and seconds are `_s`."""
    field = re.sub("_seconds$", "_s", name.removesuffix("_total"))
    kind: Kind = "counter" if name.endswith("_total") else "gauge"
    return Metric(f"ehkafka_{name}", kind, meaning, attrgetter(field), labels)


def _of_partition(name: str, meaning: str) -> Metric[PartitionSnapshot]:
    return _field(name, meaning, *OF_PARTITION)


def _commits(snapshot: Snapshot) -> Value:
    counters = snapshot.counters
    return {
        "acknowledged": counters.get("CommitAcknowledged", 0),
        "failed": counters.get("CommitFailed", 0),
    }


def _rebalances(snapshot: Snapshot) -> Value:
    kinds = ("assigned", "revoked", "lost")
    return {kind: snapshot.counters.get(f"rebalances_{kind}", 0) for kind in kinds}


def _overdue(snapshot: Snapshot) -> Value:
    found = Counter({one.handler: 0 for one in snapshot.handlers})
    found.update(call.handler for call in snapshot.overdue)
    return found


def _call_times(handler: HandlerSnapshot) -> Value:
    # None were timed; or a member that is of another version, as in a rolling restart, has other buckets.
    if len(handler.call_counts) != len(BOUNDS_S) + 1:
        return None
    return Buckets(handler.call_counts, handler.calls_s)


APP: tuple[Metric[Snapshot], ...] = (
    Metric("ehkafka_running", "gauge", "1 while the app runs, else 0.", lambda s: s.state == "running"),
    _field("uptime_seconds", "Since the app was started."),
    Metric("ehkafka_partitions", "gauge", "Partitions that this app has now.", lambda s: len(s.partitions)),
    _field("received_records_total", "Records that were received."),
    _field(
        "finished_records_total",
        "Records with the outcome finished, those included that an earlier owner had finished.",
    ),
    _field(
        "skipped_records_total",
        "Records that were skipped: by their handler, by the failure policy, or because of their age.",
    ),
    Metric(
        "ehkafka_dead_letters_total",
        "counter",
        "Records whose dead letter is safe.",
        lambda s: s.dead_lettered_records,
    ),
    _field(
        "returned_records_total",
        "Received records without an outcome when their partition went; the next owner handles them.",
    ),
    _field(
        "stale_records_total",
        "Records that finished after their partition had gone: the next owner handles them once more.",
    ),
    Metric(
        "ehkafka_lost_records_total",
        "counter",
        "Offsets that the log no longer held when they were to be read, and those that were skipped for it.",
        lambda s: s.counters.get("records_lost", 0),
    ),
    Metric(
        "ehkafka_received_bytes_total",
        "counter",
        "Bytes that came in on the consumer's connections.",
        lambda s: s.socket_bytes,
    ),
    Metric("ehkafka_commits_total", "counter", "Commits, by result.", _commits, by="result"),
    Metric("ehkafka_rebalances_total", "counter", "Rebalances of the group here.", _rebalances, by="kind"),
    Metric(
        "ehkafka_events_total",
        "counter",
        "Events of each kind in ehkafka.events, and the plain counters.",
        lambda s: s.counters,
        by="event",
    ),
    Metric(
        "ehkafka_overdue_calls",
        "gauge",
        "Calls on threads that run for longer than their handler's deadline.",
        _overdue,
        by="handler",
    ),
    _field(
        "throttled_seconds_total", "What brokers held their answers back because of quotas, over all brokers."
    ),
    _field("broker_silence_seconds", "Since any broker answered last, heartbeats included."),
    _field(
        "poll_gap_seconds",
        "The longest time between two turns of the poll loop, of the last one to two minutes.",
    ),
    _field("token_valid_seconds", "How long the Entra ID token in use is still valid."),
    Metric(
        "ehkafka_mirror_delay_seconds",
        "gauge",
        "How long the mirror has been behind the commits, where it has waited longest.",
        lambda s: None if s.mirror is None else s.mirror.behind_s,
    ),
    Metric(
        "ehkafka_mirror_behind_partitions",
        "gauge",
        "Partitions whose mirror is behind their commit.",
        lambda s: None if s.mirror is None else s.mirror.behind_partitions,
    ),
    Metric(
        "ehkafka_mirror_failing",
        "gauge",
        "1 while the mirror's store takes no writes, else 0.",
        lambda s: None if s.mirror is None else s.mirror.error is not None,
    ),
    _field("unacknowledged_outputs", "Outputs and dead letters that the broker has not acknowledged."),
    _field(
        "unacknowledged_messages",
        "Messages that app.producer was given and the broker has not acknowledged.",
    ),
    _field("batch_seconds", "How long the last batch took; on Spark only."),
)

HANDLER: tuple[Metric[HandlerSnapshot], ...] = (
    Metric(
        "ehkafka_attempts_total",
        "counter",
        "Calls of the handler for a record, by what they led to.",
        lambda h: h.attempts,
        ("handler",),
        by="outcome",
    ),
    Metric(
        "ehkafka_handler_seconds",
        "histogram",
        "How long a call of the handler takes; of a batch handler it is a batch.",
        _call_times,
        ("handler",),
        buckets=BOUNDS_S,
    ),
    Metric("ehkafka_workers", "gauge", "Workers of the handler.", lambda h: h.workers, ("handler",)),
)

PARTITION: tuple[Metric[PartitionSnapshot], ...] = (
    _of_partition("lag_records", "Records up to the end of the log that are not finished."),
    _of_partition("backlog_records", "Received without an outcome; parked records count apart."),
    _of_partition("backlog_bytes", "Values, keys and headers of the backlog."),
    _of_partition(
        "in_flight_records", "Of the backlog: with its handler, or started and waiting for an answer."
    ),
    _of_partition("parked_records", "Waiting for a next attempt or on hold, or behind such a record."),
    _of_partition("parked_bytes", "Values, keys and headers of the waiting records."),
    Metric(
        "ehkafka_watermark_next_offset",
        "gauge",
        "Offset up to which all received records have an outcome.",
        lambda p: p.watermark,
        OF_PARTITION,
    ),
    Metric(
        "ehkafka_committed_next_offset",
        "gauge",
        "Offset that the broker has stored for the group.",
        lambda p: p.committed,
        OF_PARTITION,
    ),
    Metric(
        "ehkafka_oldest_unfinished_seconds",
        "gauge",
        "Since the oldest record without an outcome was received; 0 where there is none.",
        lambda p: 0.0 if p.oldest is None else p.oldest.age_s,
        OF_PARTITION,
    ),
    _of_partition("lanes", "Keys with records that are not finished."),
    _of_partition(
        "blocked_lanes",
        "Lanes whose first record waits: for its next attempt, for a command, or because its key is paused.",
    ),
    _of_partition(
        "held_lanes", "Of the blocked lanes, those that only a command, a restart or a rebalance lets go."
    ),
    Metric(
        "ehkafka_partition_paused",
        "gauge",
        "1 while fetching is paused because of the backlog, else 0.",
        lambda p: p.paused,
        OF_PARTITION,
    ),
    _of_partition(
        "standstill_seconds",
        "Since when the log goes on and nothing of it arrives, though the partition is not paused.",
    ),
    Metric(
        "ehkafka_partition_unreadable",
        "gauge",
        "1 while nothing of the partition can be read from an offset on, such as a broken batch; else 0.",
        lambda p: p.unreadable is not None,
        OF_PARTITION,
    ),
)

MEMBER: tuple[Metric[MemberSnapshot], ...] = (
    Metric("ehkafka_member_live", "gauge", "1 while the member is live, else 0.", lambda m: m.is_live),
    Metric(
        "ehkafka_member_ready",
        "gauge",
        "1 while the member has joined the group, else 0.",
        lambda m: m.is_ready,
    ),
    Metric(
        "ehkafka_member_restarts_total",
        "counter",
        "How often the member was started again, rolling restarts included.",
        lambda m: m.restarts,
    ),
    Metric(
        "ehkafka_member_silence_seconds",
        "gauge",
        "Since the member answered its supervisor last; its other metrics are as old.",
        lambda m: m.silence_s,
    ),
)

ALL: tuple[Metric[Any], ...] = (*APP, *HANDLER, *PARTITION, *MEMBER)
