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
    """The oldest record of a partition that has no outcome, or whose outputs are not acknowledged.

    It is what holds the commit back. Made by `App.snapshot`.
    """

    # Its position in the partition.
    offset: int
    # Its key as text, as `Keys` names it.
    key: str
    # Seconds since it was received.
    age_s: float
    # How often its handler was called.
    attempts: int
    # `queued`, `running`, or what its key waits for.
    state: str
    # What its last failed attempt raised; empty when none has failed.
    last_error: str = ""
    # It waits for a command, a restart or a rebalance: no time and no answer will end that.
    is_on_hold: bool = False
    # How many seconds its handler may take for it, where it runs and has a deadline; else 0.
    deadline_s: float = 0.0
    # It is older than `stuck_s` and that deadline together: health is red.
    is_stuck: bool = False
    # `queued`, `running`, or `waiting: …` and for what: `retry` (its next attempt), `on hold`, `paused`,
    # `your answer`, `broker` (to acknowledge its dead letter or outputs) or `earlier call` (of an assignment
    # that has ended).
    status: str = "queued"
    # The name of its handler; empty: unknown.
    handler: str = ""
    # How many records its key has here, itself included; one that waits for its outputs alone is none of them
    # any more.
    lane_records: int = 1


@dataclass(frozen=True, slots=True)
class OutlivingCall:
    """A call that still runs for an assignment of its partition that has ended.

    Its result counts for nothing, since the record is the next owner's by now. While it runs, the records of
    its key wait if the partition is ours again.
    """

    partition: TopicPartition
    # Of the assignment that has ended.
    epoch: int
    offset: int
    key: str
    handler: str
    # Seconds since the record was received.
    age_s: float
    # That is longer than `stuck_s` and its handler's deadline together: health is red.
    is_stuck: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why nothing of a partition can be read from an offset on, and for how long that has lasted.

    `is_batch`: the batch there is broken, or in a format that the client does not know; else the broker
    answers fetches of the partition with an error.
    """

    offset: int
    reason: str
    is_batch: bool
    lasts_s: float


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition of ours. Made by `App.snapshot`."""

    # Its topic and number.
    partition: TopicPartition
    # The number of its assignment to this process: a new one at each.
    epoch: int
    # Records behind the end of the log that are not finished, as of `log_age_s` ago; None until the end is
    # known, once that is older than `unreachable_s`, and while throttling keeps a newer end away and all up
    # to the known one has been received. Offsets that hold no record, such as the end of a transaction, count
    # for up to 0.5 s after they were read. A record is finished when the broker has acknowledged its outputs,
    # too.
    lag_records: int | None
    # Received records without an outcome that do not wait behind a failed one.
    backlog_records: int
    # Their values, keys and headers.
    backlog_bytes: int
    # They wait, or are behind a first record of their key that waits or is being retried; not in the backlog.
    parked_records: int
    # Their values, keys and headers.
    parked_bytes: int
    # The key that has most of what is parked, while this partition's share of the parked budget is full.
    parked_full_key: str | None
    # Keys with unfinished records.
    lanes: int
    # The next offset up to which all received records have an outcome, and their outputs are safe; None
    # before the first record.
    watermark: int | None
    # The next offset that the broker has acknowledged; None when the group has none.
    committed: int | None
    # Since the assignment began.
    received_records: int
    # Of these, how many have an outcome.
    finished_records: int
    # Of these, how many were skipped.
    skipped_records: int
    # Of these, how many are dead letters.
    dead_lettered_records: int
    # The client fetches nothing of it at the moment.
    paused: bool
    # Its oldest record that is not finished; None: there is none.
    oldest: Unfinished | None
    # For how many seconds the log has gone on and nothing of it arrived, though the partition is not paused.
    standstill_s: float = 0.0
    # Offsets left up to where its log ended at the start, in a run that ends when all are there; None in any
    # other run, and until that end is known.
    catch_up_records: int | None = None
    # Of the backlog: with its handler, or waiting for an answer (deferred, or its dead letter was sent).
    in_flight_records: int = 0
    # Keys whose first record waits: for its next attempt, for a command, or because its key is paused.
    blocked_lanes: int = 0
    # A person has paused it, or stopped its handler.
    is_paused_by_hand: bool = False
    # Of the blocked lanes, the ones that no time ends.
    held_lanes: int = 0
    # Seconds since a broker said last where the log ends, by a fetch or asked for it; before it ever did
    # None, and from `unreachable_s` on since the partition is ours. After 8 s (or `unreachable_s`) without an
    # answer only the seconds in which this process looked for one, None while these are fewer.
    log_age_s: float | None = None
    # The broker that leads it, as of the last statistics; empty before these.
    leader: str = ""
    # Records that retention has deleted before they were read, while the partition is paused.
    deleted_records: int = 0
    # Why nothing can be read of it; None where it can be read.
    unreadable: Unreadable | None = None


@dataclass(frozen=True, slots=True)
class HandlerSnapshot:
    """One handler of ours, over all partitions since the start. Made by `App.snapshot`."""

    # The name of its function or class.
    handler: str
    # The names of those that it handles.
    topics: tuple[str, ...]
    # How many there are.
    workers: int = joins(sum, 0)
    # How many attempts ended so: `finished`, or one of `recovery.failures.FAILED_OUTCOMES`.
    attempts: Mapping[str, int] = joins(counts, dict)
    # How many calls took how long: one count for each of `workers.call_times.BOUNDS_S` and one for what took
    # longer. A call of a batch handler is a batch. Empty unless `App.measure` was called.
    call_counts: tuple[int, ...] = joins(side_by_side, ())
    # Seconds that these calls took together.
    calls_s: float = joins(sum, 0.0)
    # A person has stopped it: nothing starts, and nothing is received for it. Of members: of all.
    is_stopped: bool = joins(all, default=False)
    # The least and the most that `workers="auto"` may find; None where their number is given.
    workers_auto: tuple[int, int] | None = joins(side_by_side, None)


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """One member of a supervisor, as it sees it. Made by `App.snapshot`."""

    # Its place among them, from 1.
    number: int
    # Its process; None while it waits.
    pid: int | None
    # `starting`, `running`, `stopping`, or `waiting` for its next start.
    state: str
    # How often it was started again, for any reason.
    restarts: int
    # Its process answers, and nothing is wrong with it that a restart would cure.
    is_live: bool
    # It has joined the group, and is not stopping.
    is_ready: bool
    # Seconds since it answered last; None before its first answer.
    silence_s: float | None
    # How its last process ended, as a sentence; empty before it ever did.
    last_end: str
    # As it answered last; None before its app was made.
    snapshot: Snapshot | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole app. Made by `App.snapshot`.

    Counts are over all partitions that are or were ours since the start.
    """

    # The consumer group.
    group: str
    # The endpoint's name.
    endpoint: str
    # `new`, `starting`, `running`, `stopping` or `stopped`.
    state: str
    # When it was taken, in seconds since 1970.
    taken_at_s: float
    # Seconds since the app started.
    uptime_s: float
    # Those that are ours now.
    partitions: tuple[PartitionSnapshot, ...] = joins(by_partition, ())
    # Handed over by the client.
    received_records: int = joins(sum, 0, counts_on=True)
    # Have an outcome.
    finished_records: int = joins(sum, 0, counts_on=True)
    # Of these, skipped.
    skipped_records: int = joins(sum, 0, counts_on=True)
    # Of these, dead letters.
    dead_lettered_records: int = joins(sum, 0, counts_on=True)
    # Left for the next owner.
    returned_records: int = joins(sum, 0, counts_on=True)
    # Their results came after their assignment had ended, and counted for nothing.
    stale_records: int = joins(sum, 0, counts_on=True)
    # One count for each kind of event, by class name, and the plain counters (see `events.event.COUNTERS`).
    counters: Mapping[str, int] = joins(counts, dict)
    # For how many seconds brokers held their answers back because of quotas.
    throttled_s: float = joins(sum, 0.0)
    # One did so just now: empty fetches prove nothing.
    is_throttled: bool = joins(any, default=False)
    # Calls on threads that run for longer than their handler's `deadline_s`.
    overdue: tuple[OverdueAttempt, ...] = joins(in_line, ())
    # Calls that still run for assignments that have ended, and keep their keys.
    outliving: tuple[OutlivingCall, ...] = joins(in_line, ())
    # Seconds since any broker answered last, heartbeats included; up to 5 s too much where little goes on.
    # The time in which this process did not look is not counted.
    broker_silence_s: float = joins(max, 0.0, of_running=True)
    # No broker can be asked, so the ends of the logs are unknown: all lags are None.
    is_cut_off: bool = joins(any, default=False, of_running=True)
    # A member of a settled group that gave it no partition: it takes over when another one leaves.
    is_standby: bool = joins(all, default=False, of_running=True)
    # For how many seconds all partitions have been lost and none came back; None: they are not.
    lost_s: float | None = joins(max, None, of_running=True)
    # How many they were.
    lost_partitions: int = joins(sum, 0, of_running=True)
    # What the consumer received on its connections, as of up to 5 s ago; None before the first statistics.
    socket_bytes: int | None = joins(sum, None)
    # Of values, keys and headers of the records that have an outcome.
    handled_bytes: int = joins(sum, 0)
    # What the copy of the commits has; None without a mirror.
    mirror: MirrorState | None = joins(worst, None)
    # Of a supervisor each of its members; all else is then what these have together.
    members: tuple[MemberSnapshot, ...] = ()
    # One for each handler.
    handlers: tuple[HandlerSnapshot, ...] = joins(by_handler, ())
    # The longest time in seconds between two turns of the poll loop, of the last one to two minutes.
    poll_gap_s: float = joins(max, 0.0, of_running=True)
    # For how many seconds the Entra ID token in use is still valid, 0: none is; None where the endpoint has
    # no tokens.
    token_valid_s: float | None = joins(min, None)
    # Messages that handlers have sent and the broker has not acknowledged; None where no handler sends
    # anything.
    unacknowledged_outputs: int | None = joins(sum, None)
    # Messages of `app.producer` that have no answer; None where it was given nothing yet.
    unacknowledged_messages: int | None = joins(sum, None)
    # How many seconds the last batch took on Spark; None elsewhere.
    batch_s: float | None = joins(max, None)

    @classmethod
    def empty(cls, group: str, endpoint: str, state: str, taken_at_s: float) -> Snapshot:
        """Inner: return the picture of an app that was never started."""
        return cls(group, endpoint, state, taken_at_s, 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, texts and numbers, the totals included: JSON can say it."""
        plain: dict[str, Any] = _plain(self)
        totals = ("backlog_records", "parked_records", "lanes", "lag_records", "socket_ratio")
        return plain | {name: getattr(self, name) for name in totals}

    @property
    def backlog_records(self) -> int:
        """Received without an outcome, over all partitions."""
        return sum(p.backlog_records for p in self.partitions)

    @property
    def parked_records(self) -> int:
        """Waiting behind a first record of their key that waits, that one included, over all partitions."""
        return sum(p.parked_records for p in self.partitions)

    @property
    def lanes(self) -> int:
        """Keys with unfinished records, over all partitions."""
        return sum(p.lanes for p in self.partitions)

    @property
    def socket_ratio(self) -> float | None:
        """Bytes received on the connections for each byte handled; None before there are both.

        Somewhat above 1 where all is well: Kafka's own framing, and what is fetched ahead. A multiple tells
        that records are fetched again and again: many partitions pause and resume.
        """
        if not self.socket_bytes or not self.handled_bytes:
            return None
        return self.socket_bytes / self.handled_bytes

    @property
    def lag_records(self) -> int | None:
        """Total lag; None until every partition's end is known, while cut off, and after a loss of all."""
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
