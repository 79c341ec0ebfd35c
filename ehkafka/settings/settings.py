"""Typed settings of an app: a plain dataclass that refuses what cannot work, and says why.

Values only; where they come from (arguments, environment, files) is the business of `App` and `cli/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.settings.option import SECONDS_MAX, check_options, documented, option
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


def check_group(group: object) -> None:
    """Refuse what names no group. Raises `ConfigurationError`."""
    if not isinstance(group, str) or not group.strip():
        raise ConfigurationError("group is missing: name the consumer group that this app belongs to.")
    if "sharedaccess" in group.lower():
        raise ConfigurationError(
            "group=*** looks like a connection string: give it to Endpoint.connection_string(…), and set "
            "group= to the name of the consumer group."
        )


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
    if timeout_s is not None and not (is_number and 0 <= timeout_s <= SECONDS_MAX):  # type: ignore[operator]
        raise ConfigurationError(
            f"{call}(timeout_s={timeout_s!r}) is not a time: give seconds from 0 to {SECONDS_MAX}, or None."
        )


def check_max_age(max_age: object) -> None:
    """Refuse what is no age. Raises `ConfigurationError`."""
    if max_age is not None and (not isinstance(max_age, timedelta) or max_age <= timedelta(0)):
        raise ConfigurationError(
            f"max_age={max_age!r} is not an age: give a timedelta above zero, or None for no limit."
        )


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What governs one app in addition to its endpoint and its handlers."""

    group: str = option(
        MISSING,
        "the consumer group; on Event Hubs, up to 256 characters, and up to 1000 groups in a namespace.",
        section="The group, and where it begins",
        rule=check_group,
    )
    start: Any = option(
        MISSING,
        "where the group begins to read a partition without a commit; `App` lists the forms.",
        given="Start",
    )
    reset: bool | str = option(
        False,
        "true moves the group back to `start` at each run; a text names a reset that is done once. The group "
        "must have no members (else `GroupInUseError`). The commits' metadata keep the name, so all replicas "
        "and restarted containers may be given it.",
        rule=check_reset,
    )
    on_no_group_offsets: OnNoGroupOffsets = option(
        "mirror",
        "where the group begins to read a partition without a commit: at the mirror's position, or at start. "
        '`"mirror"` begins at the app\'s mirror, if it has one that knows the partition, else at `start`; '
        '`"start"` always at `start`; `"fail"` ends the app instead.',
        one_of=get_args(OnNoGroupOffsets),
    )
    on_out_of_range: OutOfRange = option(
        "stop",
        "what the app does if the log no longer has the next offset. Retention deleted it, or the log was "
        'truncated or recreated: `"stop"` ends the app, `"earliest"` continues at the log\'s start, '
        '`"latest"` at its end. `OffsetGap` logs the size of the gap each time.',
        one_of=get_args(OutOfRange),
    )
    max_age: timedelta | None = option(
        None,
        "age above which records are skipped and counted. A record's age when it is received counts, "
        "by its timestamp; records without a timestamp are handled.",
        rule=check_max_age,
    )
    assignor: Assignor = option(
        "default",
        "default lets plain clients share the group; cooperative-sticky moves fewer partitions.",
        one_of=get_args(Assignor),
    )
    instance_id: str | None = option(
        None, "name of a static member, whose restart within the session time-out moves no partition."
    )

    commit_interval_s: float | None = option(
        None,
        "time between two commits, whose records a crash repeats; default: 1 s, less on Apache Kafka. "
        "There a commit follows as soon as 100 results are not committed, 50 ms after the last commit at the "
        "earliest. On Event Hubs commits are at least 1 s apart, also if this is less.",
        section="Commits",
        above=0,
    )
    commit_every_records: int | None = option(
        None, "number of records after which the app commits early; on Event Hubs, still 1 s apart.", above=0
    )
    commit_idle_s: float | None = option(
        None,
        "time after which an unchanged position is committed again; if not set, 6 h on Event Hubs. "
        "Elsewhere never, if not set.",
        above=0,
    )
    exactly_once: ExactlyOnce = option(
        False,
        "true commits outputs and offsets in one transaction; preview also tries this on Event Hubs. Dead "
        "letters are in it as well, so that readers with `isolation.level=read_committed` see each record's "
        "once. It is committed every 0.1 s if `commit_interval_s` is not set. `docs/guides/exactly-once.md` "
        "has the promise.",
        one_of=(True, False, "preview"),
    )

    backlog_records_max: int = option(
        50_000,
        "limit of received, unfinished records; when half of the limit is used, stuck partitions pause.",
        section="How much is kept in memory",
        above=0,
    )
    backlog_bytes_max: int = option(
        128 * 1024 * 1024,
        "limit of the bytes of received, unfinished records: values, keys and headers.",
        above=0,
    )
    consume_records_max: int = option(
        1_000,
        "how many records the app takes from the client library at a time.",
        above=0,
        most=1_000_000,  # confluent-kafka's `consume` takes no more
    )
    parked_records_max: int = option(
        100_000,
        "limit of records that wait for a retry, are on hold or follow such a record; not part of the "
        "backlog. They are behind a failed record until its retry or an action on its key. Each partition "
        "has an equal share: a failing key with 10 records a second fills a share of 6000 records in 10 min.",
        above=0,
    )
    parked_bytes_max: int = option(
        128 * 1024 * 1024, "limit of the bytes of the waiting records: values, keys and headers.", above=0
    )
    on_parked_full: OnParkedFull = option(
        "pause_partition",
        "what happens when a partition has reached its share of the limits for waiting records. "
        '`"pause_partition"` pauses it, `"dead_letter"` is for its largest waiting key, `"stop"` ends all.',
        one_of=get_args(OnParkedFull),
    )

    stop_s: float = option(
        25.0,
        "how long a stop can take to finish the started records; Kubernetes kills a pod after 30 s.",
        section="Stopping",
        least=0,
    )
    drain: Drain | bool = option(
        "started",
        "which records a stop finishes: started and earlier ones, all received ones, or only running ones. "
        '`"started"`: the records that have started, and those before them in their partition if `stop_s` '
        'allows; `"all"` (or True): all that were received; `"running"` (or False): those that run now.',
        one_of=get_args(Drain),
        rule=drain_of,
    )
    drain_s: float = option(
        10.0,
        "how long running calls can take when a partition is revoked. At most half of "
        "max.poll.interval.ms is used.",
        least=0,
    )

    connect_s: float = option(
        15.0,
        "how long the app tries to reach the broker at the start.",
        section="Time limits, and when health turns red",
        above=0,
    )
    stuck_s: float = option(
        300.0,
        "age of an unfinished record, or time of a lag without progress, at which health turns red.",
        above=0,
    )
    unreachable_s: float = option(
        15.0,
        "time without an answer from any broker, or from one leader, at which health turns red. So does this "
        "time without partitions after all were lost.",
        above=0,
    )
    idle_s: float = option(5.0, "time without new records of a partition until on_idle is called.", above=0)
    report_interval_s: float = option(
        60.0, "time between two log lines of a handler (`HandlerReport`); 0 for no lines.", least=0
    )

    # Shown in no form, nor pickled: a password may be among them. Any mapping may be given.
    consumer: Mapping[str, Any] = option(
        dict, "librdkafka properties of the consumer.", typed="{}", section="Client"
    )
    producer: Mapping[str, Any] = option(
        dict,
        "librdkafka properties of the producers of outputs, dead letters and `app.producer`. Examples are "
        '`partitioner` (`"murmur2_random"` if not set), `linger.ms`, `compression.type`.',
        typed="{}",
    )

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises `ConfigurationError`."""
        for name in PROPERTIES:
            given = getattr(self, name)
            if isinstance(given, Mapping):  # else it is refused where the properties are read
                object.__setattr__(self, name, HiddenProperties(given))
        check_options(self)
        if self.consume_records_max > self.backlog_records_max:
            raise ConfigurationError(
                f"consume_records_max={self.consume_records_max} is above "
                f"backlog_records_max={self.backlog_records_max}: one batch would not fit into the "
                f"backlog. Lower consume_records_max, or raise backlog_records_max."
            )

    @property
    def is_cooperative(self) -> bool:
        """Whether rebalances take single partitions."""
        return self.assignor == "cooperative-sticky"

    def drain_used_s(self, poll_ms: int) -> float:
        """Return the budget of a revoke: half of `max.poll.interval.ms` at most, which ends a membership."""
        return min(self.drain_s, poll_ms / 2000)
