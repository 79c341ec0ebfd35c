"""The snapshot: one immutable picture of a running app, and its health.

Values only. `App.snapshot()` takes it from any thread; pages, terminals and metrics read nothing else. What a
supervisor shows of its members is declared with each field, by `joins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

# At run time: web frameworks read the annotations.
from ehkafka.records import TopicPartition  # noqa: TC001
from ehkafka.telemetry.joins import by_handler, by_partition, counts, in_line, joins, side_by_side, worst
from ehkafka.workers.attempt_clock import OverdueAttempt  # noqa: TC001

if TYPE_CHECKING:
    from ehkafka.checkpoints.checkpoint import MirrorState
else:
    MirrorState = Any  # an app without a mirror loads nothing of that room


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A partition's oldest record that is not finished, or whose outputs are not acknowledged.

    The partition's commit waits for this record. Made by `App.snapshot`.
    """

    # The record's offset.
    offset: int
    # The record's key as text, as in `Keys`.
    key: str
    # Seconds since the record was received.
    age_s: float
    # The number of calls of the handler for the record.
    attempts: int
    # `queued`, `running`, or what the key waits for.
    state: str
    # The error of the last failed attempt; empty if no attempt has failed.
    last_error: str = ""
    # The record waits for a command, a restart or a rebalance, and does not continue by itself.
    is_on_hold: bool = False
    # The handler's deadline in seconds, if the record runs and the handler has a deadline; otherwise 0.
    deadline_s: float = 0.0
    # The record is older than `stuck_s` plus the deadline, so health is red.
    is_stuck: bool = False
    # `queued`, `running`, or `waiting: …` with a reason: `retry` (the next attempt), `on hold`, `paused`,
    # `your answer`, `broker` (to acknowledge the dead letter or outputs) or `earlier call` (of an earlier
    # assignment).
    status: str = "queued"
    # The name of the handler; empty if it is unknown.
    handler: str = ""
    # The number of unfinished records of the key, including this record. A record that waits only for its
    # outputs does not count.
    lane_records: int = 1


@dataclass(frozen=True, slots=True)
class OutlivingCall:
    """A call that still runs from an earlier assignment of its partition.

    The call's result is ignored, because the next owner handles the record. If this process has the partition
    again, the records of the key wait until the call ends.
    """

    partition: TopicPartition
    # The number of the earlier assignment.
    epoch: int
    offset: int
    key: str
    handler: str
    # Seconds since the record was received.
    age_s: float
    # `age_s` is longer than `stuck_s` plus the handler's deadline, so health is red.
    is_stuck: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a partition cannot be read from an offset on, and for how long.

    `is_batch`: the batch at the offset is broken, or has a format that the client does not know. Otherwise
    the broker answers fetches of the partition with an error.
    """

    offset: int
    reason: str
    is_batch: bool
    lasts_s: float


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition of this process. Made by `App.snapshot`."""

    # The partition's topic and number.
    partition: TopicPartition
    # The number of the partition's assignment to this process; each assignment has a new number.
    epoch: int
    # The number of records up to the log's end that are not finished, as of `log_age_s` ago. A record whose
    # outputs are not acknowledged is not finished. None if the log's end is unknown, or has been known for
    # longer than `unreachable_s`; also None if the broker throttles and all records up to the last known end
    # have been received. Offsets without a record, such as the end of a transaction, count for up to 0.5 s
    # after they were read.
    lag_records: int | None
    # Received records that are not done, without waiting records.
    backlog_records: int
    # The bytes of the backlog's values, keys and headers.
    backlog_bytes: int
    # Records that wait for a retry or are on hold, and later records of their keys. Not in the backlog.
    parked_records: int
    # The bytes of their values, keys and headers.
    parked_bytes: int
    # The key with the most waiting records, if the partition has reached its limit of waiting records.
    parked_full_key: str | None
    # Keys with unfinished records.
    lanes: int
    # The commit position: all received records before this offset are done, and their outputs are
    # acknowledged. None before the first record.
    watermark: int | None
    # The committed offset that the broker has acknowledged; None if the group has no commit.
    committed: int | None
    # Records received since the assignment began.
    received_records: int
    # Of the received records: how many are done.
    finished_records: int
    # Of the received records: how many were skipped.
    skipped_records: int
    # Of the received records: how many became dead letters.
    dead_lettered_records: int
    # The client fetches no records of the partition now.
    paused: bool
    # The oldest record that is not finished; None if there is none.
    oldest: Unfinished | None
    # For how many seconds the log has grown and no record has arrived, although the partition is not paused.
    standstill_s: float = 0.0
    # In a run that ends when it has caught up: offsets left up to where the log ended at the start. None in
    # any other run, and until that end is known.
    catch_up_records: int | None = None
    # Records of the backlog that run, or wait for an answer (deferred, or the dead letter was sent).
    in_flight_records: int = 0
    # Keys whose first record waits for its next attempt or for a command, or whose key is paused.
    blocked_lanes: int = 0
    # An operator has paused the partition, or stopped its handler.
    is_paused_by_hand: bool = False
    # Of the blocked keys: those that do not continue by themselves.
    held_lanes: int = 0
    # Seconds since a broker last reported the log's end. If no broker ever did: None, and after
    # `unreachable_s` the seconds since the assignment. After 8 s (or `unreachable_s`) without an answer, only
    # the seconds in which this process waited for one count; None while these are fewer.
    log_age_s: float | None = None
    # The partition's leader, as of the last statistics; empty before the first statistics.
    leader: str = ""
    # Records that retention has deleted before they were read, while the partition is paused.
    deleted_records: int = 0
    # Why the partition cannot be read; None if it can be read.
    unreadable: Unreadable | None = None


@dataclass(frozen=True, slots=True)
class HandlerSnapshot:
    """One handler, over all partitions since the start. Made by `App.snapshot`."""

    # The name of the handler's function or class.
    handler: str
    # The names of the handler's topics.
    topics: tuple[str, ...]
    # The number of workers.
    workers: int = joins(sum, 0)
    # The number of attempts by result: `finished`, or one of `recovery.failures.FAILED_OUTCOMES`.
    attempts: Mapping[str, int] = joins(counts, dict)
    # The number of calls by duration: one for each of `workers.call_times.BOUNDS_S`, and one for longer
    # calls. For a batch handler, a call is a batch. Empty unless `App.measure` was called.
    call_counts: tuple[int, ...] = joins(side_by_side, ())
    # The sum of the durations of these calls, in seconds.
    calls_s: float = joins(sum, 0.0)
    # An operator has stopped the handler, in all members: no call starts, and no record is received for it.
    is_stopped: bool = joins(all, default=False)
    # The lowest and the highest number that `workers="auto"` can choose; None without `"auto"`.
    workers_auto: tuple[int, int] | None = joins(side_by_side, None)


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """One member, as its supervisor sees it. Made by `App.snapshot`."""

    # The member's number, from 1.
    number: int
    # The member's process; None while the member waits for its next start.
    pid: int | None
    # `starting`, `running`, `stopping`, or `waiting` for its next start.
    state: str
    # How often the member was restarted, for any reason.
    restarts: int
    # The member's process answers, and has no problem that a restart would solve.
    is_live: bool
    # The member has joined the group, and is not stopping.
    is_ready: bool
    # Seconds since the member's last answer; None before its first answer.
    silence_s: float | None
    # How the member's last process ended, as a sentence; empty if no process of the member has ended.
    last_end: str
    # The snapshot of the member's last answer; None before its app was made.
    snapshot: Snapshot | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole app. Made by `App.snapshot`.

    Counts are sums over all partitions that this process has or had since the start.
    """

    # The consumer group.
    group: str
    # The endpoint's name.
    endpoint: str
    # `new`, `starting`, `running`, `stopping` or `stopped`.
    state: str
    # The snapshot's time, in seconds since 1970.
    taken_at_s: float
    # Seconds since the app started.
    uptime_s: float
    # The partitions that this process has now.
    partitions: tuple[PartitionSnapshot, ...] = joins(by_partition, ())
    # Received records.
    received_records: int = joins(sum, 0, counts_on=True)
    # Of the received records: how many are done.
    finished_records: int = joins(sum, 0, counts_on=True)
    # Of these: how many were skipped.
    skipped_records: int = joins(sum, 0, counts_on=True)
    # Of these: how many became dead letters.
    dead_lettered_records: int = joins(sum, 0, counts_on=True)
    # Received records that were left for the next owner.
    returned_records: int = joins(sum, 0, counts_on=True)
    # Records whose result was ignored, because their partition was reassigned while the handler ran.
    stale_records: int = joins(sum, 0, counts_on=True)
    # One count for each kind of event, by class name, and the plain counters (see `events.event.COUNTERS`).
    counters: Mapping[str, int] = joins(counts, dict)
    # For how many seconds brokers delayed their answers because of quotas.
    throttled_s: float = joins(sum, 0.0)
    # A broker delays its answers now.
    is_throttled: bool = joins(any, default=False)
    # Calls on threads that run for longer than their handler's `deadline_s`.
    overdue: tuple[OverdueAttempt, ...] = joins(in_line, ())
    # Calls that still run from earlier assignments, and for which their keys wait.
    outliving: tuple[OutlivingCall, ...] = joins(in_line, ())
    # Seconds since any broker's last answer, including heartbeats; up to 5 s too much if there is little
    # traffic. Time in which this process was suspended does not count.
    broker_silence_s: float = joins(max, 0.0, of_running=True)
    # No broker answers, so the ends of the logs are unknown, and all lags are None.
    is_cut_off: bool = joins(any, default=False, of_running=True)
    # The group has given this member no partition. The member takes over when another member leaves.
    is_standby: bool = joins(all, default=False, of_running=True)
    # For how many seconds all partitions have been lost, and none has come back; None if none was lost.
    lost_s: float | None = joins(max, None, of_running=True)
    # The number of these lost partitions.
    lost_partitions: int = joins(sum, 0, of_running=True)
    # Bytes received on the consumer's connections, as of up to 5 s ago; None before the first statistics.
    socket_bytes: int | None = joins(sum, None)
    # Bytes of the values, keys and headers of the records that are done.
    handled_bytes: int = joins(sum, 0)
    # The state of the mirror; None without a mirror.
    mirror: MirrorState | None = joins(worst, None)
    # In a supervisor: each member. The other fields are then the sums over the members.
    members: tuple[MemberSnapshot, ...] = ()
    # One for each handler.
    handlers: tuple[HandlerSnapshot, ...] = joins(by_handler, ())
    # The longest time in seconds between two turns of the poll loop, of the last one to two minutes.
    poll_gap_s: float = joins(max, 0.0, of_running=True)
    # For how many seconds the current Entra ID token is valid; 0 if no token is valid. None if the endpoint
    # has no tokens.
    token_valid_s: float | None = joins(min, None)
    # Messages that handlers have sent and the broker has not acknowledged; None if no handler sends
    # messages.
    unacknowledged_outputs: int | None = joins(sum, None)
    # Messages of `app.producer` without an answer; None if none was sent yet.
    unacknowledged_messages: int | None = joins(sum, None)
    # On Spark: how many seconds the last batch took; None elsewhere.
    batch_s: float | None = joins(max, None)

    @classmethod
    def empty(cls, group: str, endpoint: str, state: str, taken_at_s: float) -> Snapshot:
        """Inner: return the picture of an app that was never started."""
        return cls(group, endpoint, state, taken_at_s, 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return the snapshot as dicts, lists, texts and numbers for JSON, including the totals."""
        plain: dict[str, Any] = _plain(self)
        totals = ("backlog_records", "parked_records", "lanes", "lag_records", "socket_ratio")
        return plain | {name: getattr(self, name) for name in totals}

    @property
    def backlog_records(self) -> int:
        """Received records that are not done, without waiting records, over all partitions."""
        return sum(p.backlog_records for p in self.partitions)

    @property
    def parked_records(self) -> int:
        """Records that wait or are on hold, and later records of their keys, over all partitions."""
        return sum(p.parked_records for p in self.partitions)

    @property
    def lanes(self) -> int:
        """Keys with unfinished records, over all partitions."""
        return sum(p.lanes for p in self.partitions)

    @property
    def socket_ratio(self) -> float | None:
        """Bytes received on the connections for each byte of done records; None until both are known.

        Usually a little above 1, because of Kafka's protocol and of records that are fetched ahead. A much
        higher ratio means that records are fetched again and again, because partitions pause and resume.
        """
        if not self.socket_bytes or not self.handled_bytes:
            return None
        return self.socket_bytes / self.handled_bytes

    @property
    def lag_records(self) -> int | None:
        """Total lag; None if a log's end is unknown, if no broker answers, or if all partitions were lost."""
        if self.is_cut_off or self.lost_s is not None:
            return None
        lags = [p.lag_records for p in self.partitions]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


def _plain(value: object) -> Any:
    """Return a value of ours with nothing in it but what JSON knows. Keys stay texts, times seconds."""
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


COUNTED = tuple(one.name for one in fields(Snapshot) if one.metadata.get("counts_on"))
"""What of a snapshot counts on after its process has ended: a `Tally` has the same names."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether all is well. Made by `App.health`. True where `ok` is."""

    # Why it is not: each a sentence that names where and what to do.
    reasons: tuple[str, ...] = ()
    # What is no problem and yet worth knowing, such as standby.
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"ok": self.ok, "reasons": list(self.reasons), "notes": list(self.notes)}

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.reasons

    def __bool__(self) -> bool:
        return self.ok
