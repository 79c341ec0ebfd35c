"""Typed settings of an app: plain dataclasses that refuse what cannot work, and say why.

Values only; where they come from (arguments, environment, files) is the business of `App` and `cli/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.settings.reset_name import check_reset
from ehkafka.settings.secret import HiddenProperties

Assignor = Literal["default", "cooperative-sticky"]
OutOfRange = Literal["stop", "earliest", "latest"]
OnParkedFull = Literal["pause_partition", "dead_letter", "stop"]
ExactlyOnce = bool | Literal["preview"]
OnNoGroupOffsets = Literal["mirror", "start", "fail"]
Drain = Literal["started", "all", "running"]

PROPERTIES: Final = ("consumer", "producer")
"""The settings that are properties of librdkafka, each of them a mapping."""

# Beyond these a number is a mistake of units; timers and counters of the system take more.
_SECONDS_MAX = 366 * 86_400
_COUNT_MAX = 1 << 50
# confluent-kafka's `consume` takes no more.
_MOST = {"consume_records_max": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What governs one app beside its endpoint and its handlers.

    Which records

    - `group` (required): the consumer group.
    - `start` (required): where a partition begins that has no commit of the group; `App` says how to write
      it.
    - `reset` (default `False`): move the whole group to `start` before the app joins it, which needs a group
      without members (else `GroupInUseError`). `True` does so at each start. A name does so once: the
      commits' metadata keep the name, so all replicas and restarted containers may be given it.
    - `on_no_group_offsets` (default `"mirror"`): where a partition without a commit begins: `"mirror"` at the
      app's mirror, if it has one that knows the partition, else at `start`; `"start"` always at `start`;
      `"fail"` ends the app instead.
    - `on_out_of_range` (default `"stop"`): what to do when the log does not hold the next offset, because
      retention deleted it or the log was truncated or recreated: `"stop"` ends the app, `"earliest"`
      continues at the log's start, `"latest"` at its end. `OffsetGap` logs the size of the gap each time.
    - `max_age` (a timedelta, default `None`): skip records whose timestamp is older than this when they are
      received; they are counted, logged and committed past. Records without a timestamp are handled.
    - `assignor` (default `"default"`): `"default"` can share a group with plain clients;
      `"cooperative-sticky"` moves fewer partitions.
    - `instance_id` (default `None`): static membership: a restart within the session time-out moves no
      partition.

    Commits

    - `commit_interval_s` (seconds, default `None`): the time between two commits. `None`: 1 s, and on Apache
      Kafka as soon as 100 outcomes are not committed, 50 ms after the last commit at the earliest. On Event
      Hubs commits are at least 1 s apart, whatever this and `commit_every_records` say.
    - `commit_every_records` (records, default `None`): commit earlier, after so many outcomes.
    - `commit_idle_s` (seconds, default `None`): commit an unchanged position again after this time, before it
      expires. `None`: 6 h on Event Hubs, elsewhere never.
    - `commit_metadata_bytes_max` (bytes, default `None`): room in a commit for what is finished above it, so
      that a restart does not handle it again; 0 for none. `None`, and the most: just below the service's
      limit (1024 on Event Hubs, 4096 elsewhere).

    - `exactly_once` (default `False`): commit outputs and dead letters in one transaction with the offsets of
      their records, so that each record's are seen once by readers with `isolation.level=read_committed`,
      every 0.1 s unless `commit_interval_s` says otherwise. `"preview"` tries it on Event Hubs, too
      (`docs/exactly-once.md` has what is promised).

    Limits

    - `backlog_records_max` (records, default `50_000`): records that were received and have no outcome; from
      half of the limit on, partitions that are stuck pause.
    - `backlog_bytes_max` (bytes, default `128 * 1024 * 1024`): the same in bytes of values, keys and headers.
    - `consume_records_max` (records, default `1_000`): records taken from the client library at a time.
    - `parked_records_max` (records, default `100_000`): records behind a failed one that waits for a retry or
      is held; they leave the backlog and count here. Each partition has an equal share: a failing key with 10
      records a second fills a share of 6000 records in 10 minutes.
    - `parked_bytes_max` (bytes, default `128 * 1024 * 1024`): the same in bytes of values, keys and headers.
    - `on_parked_full` (default `"pause_partition"`): what to do when a partition has filled its share:
      `"pause_partition"`, `"dead_letter"` its largest parked key, or `"stop"` the app.

    Stop

    - `drain_s` (seconds, default `10.0`): time to finish what runs when a partition is revoked; at most half
      of max.poll.interval.ms is used.
    - `stop_s` (seconds, default `25.0`): time to finish records when the app stops; below the 30 s after
      which Kubernetes kills.
    - `drain` (default `"started"`): what a stop finishes: `"started"` the records that have started, and
      those before them in their partition if `stop_s` allows; `"all"` (or True) all that were received;
      `"running"` (or False) those that run now.

    Health

    - `connect_s` (seconds, default `15.0`): time to reach the broker at the start.
    - `stuck_s` (seconds, default `300.0`): age of an unfinished record, or of lag without progress, at which
      health turns red.
    - `unreachable_s` (seconds, default `15.0`): time without an answer of any broker or of one partition's
      leader, or without partitions after all were lost, at which health turns red.
    - `idle_s` (seconds, default `5.0`): silence of a partition after which `on_idle` is called.
    - `report_interval_s` (seconds, default `60.0`): time between two lines of the log that say what each
      handler does (`HandlerReport`); 0 for none.

    Client

    - `consumer` (default `{}`): librdkafka's properties.
    - `producer` (default `{}`): librdkafka's properties for the producers of outputs, dead letters and
      `app.producer`, such as `partitioner` (`"murmur2_random"` if not set), `linger.ms`, `compression.type`.
    """

    group: str
    start: Any
    reset: bool | str = False
    on_no_group_offsets: OnNoGroupOffsets = "mirror"
    on_out_of_range: OutOfRange = "stop"
    max_age: timedelta | None = None
    assignor: Assignor = "default"
    instance_id: str | None = None
    commit_interval_s: float | None = None
    commit_every_records: int | None = None
    commit_idle_s: float | None = None
    commit_metadata_bytes_max: int | None = None
    exactly_once: ExactlyOnce = False
    backlog_records_max: int = 50_000
    backlog_bytes_max: int = 128 * 1024 * 1024
    consume_records_max: int = 1_000
    parked_records_max: int = 100_000
    parked_bytes_max: int = 128 * 1024 * 1024
    on_parked_full: OnParkedFull = "pause_partition"
    drain_s: float = 10.0
    stop_s: float = 25.0
    drain: Drain | bool = "started"
    connect_s: float = 15.0
    stuck_s: float = 300.0
    unreachable_s: float = 15.0
    idle_s: float = 5.0
    report_interval_s: float = 60.0
    # Shown in no form, nor pickled: a password may be among them. Any mapping may be given.
    consumer: Mapping[str, Any] = field(default_factory=dict)
    producer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises `ConfigurationError`."""
        _hide_properties(self)
        positive = (
            "backlog_records_max", "backlog_bytes_max", "consume_records_max",
            "parked_records_max", "parked_bytes_max", "connect_s", "stuck_s", "idle_s",
            "unreachable_s",
        )  # fmt: skip
        for name in positive:
            _require(self, name, least=0, strictly=True)
        for name in ("drain_s", "stop_s", "report_interval_s"):
            _require(self, name, least=0, strictly=False)
        for name in ("commit_interval_s", "commit_every_records", "commit_idle_s"):
            if getattr(self, name) is not None:
                _require(self, name, least=0, strictly=True)
        if self.commit_metadata_bytes_max is not None:
            _require(self, "commit_metadata_bytes_max", least=0, strictly=False)
        if self.exactly_once not in (True, False, "preview"):
            raise ConfigurationError(
                f"exactly_once={self.exactly_once!r} is unknown; use True, False or 'preview'."
            )
        check_reset(self.reset)
        if self.assignor not in ("default", "cooperative-sticky"):
            raise ConfigurationError(
                f"assignor={self.assignor!r} is unknown; use 'default' or 'cooperative-sticky'."
            )
        if self.on_no_group_offsets not in get_args(OnNoGroupOffsets):
            raise ConfigurationError(
                f"on_no_group_offsets={self.on_no_group_offsets!r} is unknown; use 'mirror', 'start' or "
                "'fail'."
            )
        if self.on_out_of_range not in get_args(OutOfRange):
            raise ConfigurationError(
                f"on_out_of_range={self.on_out_of_range!r} is unknown; use 'stop', 'earliest' or 'latest'."
            )
        if self.on_parked_full not in get_args(OnParkedFull):
            raise ConfigurationError(
                f"on_parked_full={self.on_parked_full!r} is unknown; use 'pause_partition', 'dead_letter' "
                "or 'stop'."
            )
        drain_of(self.drain)
        check_max_age(self.max_age)
        if self.consume_records_max > self.backlog_records_max:
            raise ConfigurationError(
                f"consume_records_max={self.consume_records_max} is above "
                f"backlog_records_max={self.backlog_records_max}: one batch would overrun the backlog. "
                "Lower the first or raise the second."
            )

    def drain_used_s(self, poll_ms: int) -> float:
        """Return the budget of a revoke: half of `max.poll.interval.ms` at most, which ends a membership."""
        return min(self.drain_s, poll_ms / 2000)


MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "group": "the consumer group; on Event Hubs at most 256 characters, 1000 groups in a namespace",
        "start": "where a partition begins that has no commit of the group",
        "reset": "true: at each start the group is taken back to start; a name: once under that name",
        "on_no_group_offsets": "where to begin without a commit: at the mirror if there is one, or at start",
        "on_out_of_range": "what to do when the log no longer has the next offset",
        "max_age": "older records are skipped, counted and committed past",
        "assignor": "default can share a group with plain clients; cooperative-sticky moves fewer partitions",
        "instance_id": "static membership: a restart within the session time-out moves no partition",
        "commit_interval_s": "how much a crash repeats; if not set, 1 s, and less on Apache Kafka",
        "commit_every_records": "commits earlier after so many records; on Event Hubs still 1 s apart",
        "commit_idle_s": "sends an unchanged position again before it expires; on Event Hubs 6 h if not set",
        "commit_metadata_bytes_max": "room in a commit for what is finished above it; 0 keeps it out",
        "exactly_once": "outputs and offsets in one transaction; preview tries it on Event Hubs, too",
        "backlog_records_max": "received records without an outcome; from half on, stuck partitions pause",
        "backlog_bytes_max": "the same in bytes of their values, keys and headers",
        "consume_records_max": "records taken from the client library at a time",
        "parked_records_max": "records that wait with failing ones, beside the backlog",
        "parked_bytes_max": "the same in bytes of their values, keys and headers",
        "on_parked_full": "what a partition does whose share of the parked budget is full",
        "drain_s": "time to finish what runs when a partition is taken away",
        "stop_s": "time to finish what is started when the app stops; Kubernetes kills after 30 s",
        "drain": "what a stop finishes: started (and what lies below, if that fits), all, or running",
        "connect_s": "time to reach the broker at the start",
        "stuck_s": "age of an unfinished record, or of lag without progress, at which health turns red",
        "unreachable_s": "time without an answer of any broker, or of one leader, at which health turns red",
        "idle_s": "silence of a partition until on_idle is called",
        "report_interval_s": "between two lines of the log on what each handler does; 0 for none",
        "consumer": "librdkafka's properties, see the section of their own",
        "producer": "the same for the producers of outputs, dead letters and app.producer",
    }
)
"""What each setting decides, in one line."""


def drain_of(drain: object) -> Drain:
    """Return what a stop is to finish; True is `all`, False `running`. Raises `ConfigurationError`."""
    if isinstance(drain, bool):
        return "all" if drain else "running"
    for known in get_args(Drain):
        if drain == known and isinstance(drain, str):
            return known  # type: ignore[no-any-return]
    raise ConfigurationError(f"drain={drain!r} is unknown; use 'started', 'all' or 'running'.")


def check_timeout(timeout_s: object, call: str) -> None:
    """Refuse what is not a time to wait. Raises `ConfigurationError`."""
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if timeout_s is not None and not (is_number and 0 <= timeout_s <= _SECONDS_MAX):  # type: ignore[operator]
        raise ConfigurationError(
            f"{call}(timeout_s={timeout_s!r}): give seconds from 0 to {_SECONDS_MAX}, or None."
        )


def check_max_age(max_age: Any) -> None:
    """Refuse what is no age. Raises `ConfigurationError`."""
    if max_age is not None and (not isinstance(max_age, timedelta) or max_age <= timedelta(0)):
        raise ConfigurationError(
            f"max_age={max_age!r}: it must be a timedelta above zero, or None for no limit."
        )


def _hide_properties(settings: Settings) -> None:
    for name in PROPERTIES:
        given = getattr(settings, name)
        if isinstance(given, Mapping):  # else it is refused where the properties are read
            object.__setattr__(settings, name, HiddenProperties(given))


def _require(settings: Settings, name: str, *, least: float, strictly: bool) -> None:
    value = getattr(settings, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kind = "number"
    if not name.endswith("_s"):
        kind, is_number = "whole number", is_number and not isinstance(value, float)
    most = _MOST.get(name, _SECONDS_MAX if name.endswith("_s") else _COUNT_MAX)
    if not is_number or not least <= value <= most or (strictly and value == least):
        bound = f"above {least} and up to {most}" if strictly else f"from {least} to {most}"
        raise ConfigurationError(f"{name}={value!r}: it must be a {kind} {bound}.")
