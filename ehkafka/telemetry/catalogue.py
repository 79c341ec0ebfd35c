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
    Metric("ehkafka_running", "gauge", "1 while the app runs, otherwise 0.", lambda s: s.state == "running"),
    _field("uptime_seconds", "Seconds since the app was started."),
    Metric(
        "ehkafka_partitions",
        "gauge",
        "Number of partitions that the app has now.",
        lambda s: len(s.partitions),
    ),
    _field("received_records_total", "Records that the app has received."),
    _field(
        "finished_records_total",
        "Finished records, including records that an earlier owner of the partition had finished.",
    ),
    _field(
        "skipped_records_total",
        "Records that were skipped: by the handler, by the failure policy, or because of their age.",
    ),
    Metric(
        "ehkafka_dead_letters_total",
        "counter",
        "Records whose dead letter was acknowledged or stored.",
        lambda s: s.dead_lettered_records,
    ),
    _field(
        "returned_records_total",
        "Received records that were not done when the partition was revoked; the next owner handles them.",
    ),
    _field(
        "stale_records_total",
        "Records that finished after the partition was revoked; the next owner handles them again.",
    ),
    Metric(
        "ehkafka_lost_records_total",
        "counter",
        "Offsets that the log no longer had when the app read, or that the app skipped because of this gap.",
        lambda s: s.counters.get("records_lost", 0),
    ),
    Metric(
        "ehkafka_received_bytes_total",
        "counter",
        "Bytes received on the consumer's connections.",
        lambda s: s.socket_bytes,
    ),
    Metric("ehkafka_commits_total", "counter", "Commits, by result.", _commits, by="result"),
    Metric(
        "ehkafka_rebalances_total",
        "counter",
        "Rebalances in which this app took part, by kind.",
        _rebalances,
        by="kind",
    ),
    Metric(
        "ehkafka_events_total",
        "counter",
        "Events, by their name in ehkafka.events, and some other counts.",
        lambda s: s.counters,
        by="event",
    ),
    Metric(
        "ehkafka_overdue_calls",
        "gauge",
        "Calls on threads that have run for longer than their handler's deadline.",
        _overdue,
        by="handler",
    ),
    _field(
        "throttled_seconds_total",
        "Seconds by which all brokers together delayed their answers because of quotas.",
    ),
    _field("broker_silence_seconds", "Seconds since any broker last answered, including heartbeats."),
    _field(
        "poll_gap_seconds",
        "Longest time between two turns of the poll loop in the last one to two minutes.",
    ),
    _field("token_valid_seconds", "Seconds for which the current Entra ID token is still valid."),
    Metric(
        "ehkafka_mirror_delay_seconds",
        "gauge",
        "Longest time for which a partition's mirror has been behind the partition's commit.",
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
        "1 while the mirror's store accepts no writes, otherwise 0.",
        lambda s: None if s.mirror is None else s.mirror.error is not None,
    ),
    _field("unacknowledged_outputs", "Outputs and dead letters that the broker has not acknowledged."),
    _field(
        "unacknowledged_messages",
        "Messages of app.producer that the broker has not acknowledged.",
    ),
    _field("batch_seconds", "Seconds that the last batch took; only on Spark."),
)

HANDLER: tuple[Metric[HandlerSnapshot], ...] = (
    Metric(
        "ehkafka_attempts_total",
        "counter",
        "Attempts of the handler for a record, by result.",
        lambda h: h.attempts,
        ("handler",),
        by="outcome",
    ),
    Metric(
        "ehkafka_handler_seconds",
        "histogram",
        "Seconds that a call of the handler takes, for a record or for a batch.",
        _call_times,
        ("handler",),
        buckets=BOUNDS_S,
    ),
    Metric(
        "ehkafka_workers", "gauge", "Number of workers of the handler.", lambda h: h.workers, ("handler",)
    ),
)

PARTITION: tuple[Metric[PartitionSnapshot], ...] = (
    _of_partition("lag_records", "Records before the end of the log that are not finished."),
    _of_partition("backlog_records", "Received records that are not done, not counting parked records."),
    _of_partition("backlog_bytes", "Bytes of the backlog's values, keys and headers."),
    _of_partition(
        "in_flight_records",
        "Started records of the backlog: the handler runs, or the record waits for an answer.",
    ),
    _of_partition(
        "parked_records",
        "Records that wait for their next attempt, are on hold, or follow a waiting record of their key.",
    ),
    _of_partition("parked_bytes", "Bytes of the parked records' values, keys and headers."),
    Metric(
        "ehkafka_watermark_next_offset",
        "gauge",
        "Offset below which all received records are done.",
        lambda p: p.watermark,
        OF_PARTITION,
    ),
    Metric(
        "ehkafka_committed_next_offset",
        "gauge",
        "Offset that the group has committed.",
        lambda p: p.committed,
        OF_PARTITION,
    ),
    Metric(
        "ehkafka_oldest_unfinished_seconds",
        "gauge",
        "Seconds since the oldest unfinished record was received; 0 if all records are finished.",
        lambda p: 0.0 if p.oldest is None else p.oldest.age_s,
        OF_PARTITION,
    ),
    _of_partition("lanes", "Number of keys that have unfinished records."),
    _of_partition(
        "blocked_lanes",
        "Keys whose first record waits: for its next attempt, for a command, or because the key is paused.",
    ),
    _of_partition("held_lanes", "Keys whose first record waits until a command, a restart or a rebalance."),
    Metric(
        "ehkafka_partition_paused",
        "gauge",
        "1 while the app does not fetch the partition because of the backlog, otherwise 0.",
        lambda p: p.paused,
        OF_PARTITION,
    ),
    _of_partition(
        "standstill_seconds",
        "Seconds for which the log has grown and the app got no record although the partition is not paused.",
    ),
    Metric(
        "ehkafka_partition_unreadable",
        "gauge",
        "1 while the app cannot read the partition's next records, for example a broken batch; otherwise 0.",
        lambda p: p.unreadable is not None,
        OF_PARTITION,
    ),
)

MEMBER: tuple[Metric[MemberSnapshot], ...] = (
    Metric("ehkafka_member_live", "gauge", "1 while the member is live, otherwise 0.", lambda m: m.is_live),
    Metric(
        "ehkafka_member_ready",
        "gauge",
        "1 while the member has joined the group, otherwise 0.",
        lambda m: m.is_ready,
    ),
    Metric(
        "ehkafka_member_restarts_total",
        "counter",
        "Restarts of the member, including rolling restarts.",
        lambda m: m.restarts,
    ),
    Metric(
        "ehkafka_member_silence_seconds",
        "gauge",
        "Seconds since the member last answered its supervisor; the member's other metrics are as old.",
        lambda m: m.silence_s,
    ),
)

ALL: tuple[Metric[Any], ...] = (*APP, *HANDLER, *PARTITION, *MEMBER)
