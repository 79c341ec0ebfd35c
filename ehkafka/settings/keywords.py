"""`AppSettings`: the settings that an app takes by name, so that editors know each and check its value.

For type checkers: `**settings: Unpack[AppSettings]`. What they mean, and which values work, stands at
`Settings`, with the same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from ehkafka.settings.settings import (
        Assignor,
        Drain,
        ExactlyOnce,
        OnNoGroupOffsets,
        OnParkedFull,
        OutOfRange,
    )


class AppSettings(TypedDict, total=False):
    """The fields of `Settings` but for `group` and `start`, which `App` names itself."""

    reset: bool | str
    """Default `False`: move the whole group to `start` before the app joins it, which needs a group
    without members (else `GroupInUseError`). `True` does so at each start. A name does so once: the
    commits' metadata keep the name, so all replicas and restarted containers may be given it.
    """

    on_no_group_offsets: OnNoGroupOffsets
    """Default `"mirror"`: where a partition without a commit begins: `"mirror"` at the app's mirror, if
    it has one that knows the partition, else at `start`; `"start"` always at `start`; `"fail"` ends the
    app instead.
    """

    on_out_of_range: OutOfRange
    """Default `"stop"`: what to do when the log does not hold the next offset, because retention deleted
    it or the log was truncated or recreated: `"stop"` ends the app, `"earliest"` continues at the log's
    start, `"latest"` at its end. `OffsetGap` logs the size of the gap each time.
    """

    max_age: timedelta | None
    """A timedelta, default `None`: skip records whose timestamp is older than this when they are
    received; they are counted, logged and committed past. Records without a timestamp are handled.
    """

    assignor: Assignor
    """Default `"default"`: `"default"` can share a group with plain clients; `"cooperative-sticky"` moves
    fewer partitions.
    """

    instance_id: str | None
    """Default `None`: static membership: a restart within the session time-out moves no partition."""

    commit_interval_s: float | None
    """Seconds, default `None`: the time between two commits. `None`: 1 s, and on Apache Kafka as soon as
    100 outcomes are not committed, 50 ms after the last commit at the earliest. On Event Hubs commits are
    at least 1 s apart, whatever this and `commit_every_records` say.
    """

    commit_every_records: int | None
    """Records, default `None`: commit earlier, after so many outcomes."""

    commit_idle_s: float | None
    """Seconds, default `None`: commit an unchanged position again after this time, before it expires.
    `None`: 6 h on Event Hubs, elsewhere never.
    """

    commit_metadata_bytes_max: int | None
    """Bytes, default `None`: room in a commit for what is finished above it, so that a restart does not
    handle it again; 0 for none. `None`, and the most: just below the service's limit (1024 on Event Hubs,
    4096 elsewhere).
    """

    exactly_once: ExactlyOnce
    """Default `False`: commit outputs and dead letters in one transaction with the offsets of their records,
    so that each record's are seen once by readers with `isolation.level=read_committed`, every 0.1 s unless
    `commit_interval_s` says otherwise. `"preview"` tries it on Event Hubs, too (`docs/exactly-once.md` has
    what is promised).
    """

    backlog_records_max: int
    """Records, default `50_000`: records that were received and have no outcome; from half of the limit
    on, partitions that are stuck pause.
    """

    backlog_bytes_max: int
    """Bytes, default `128 * 1024 * 1024`: the same in bytes of values, keys and headers."""

    consume_records_max: int
    """Records, default `1_000`: records taken from the client library at a time."""

    parked_records_max: int
    """Records, default `100_000`: records behind a failed one that waits for a retry or is held; they
    leave the backlog and count here. Each partition has an equal share: a failing key with 10 records a
    second fills a share of 6000 records in 10 minutes.
    """

    parked_bytes_max: int
    """Bytes, default `128 * 1024 * 1024`: the same in bytes of values, keys and headers."""

    on_parked_full: OnParkedFull
    """Default `"pause_partition"`: what to do when a partition has filled its share: `"pause_partition"`,
    `"dead_letter"` its largest parked key, or `"stop"` the app.
    """

    drain_s: float
    """Seconds, default `10.0`: time to finish what runs when a partition is revoked; at most half of
    max.poll.interval.ms is used.
    """

    stop_s: float
    """Seconds, default `25.0`: time to finish records when the app stops; below the 30 s after which
    Kubernetes kills.
    """

    drain: Drain | bool
    """Default `"started"`: what a stop finishes: `"started"` the records that have started, and those
    before them in their partition if `stop_s` allows; `"all"` (or True) all that were received;
    `"running"` (or False) those that run now.
    """

    connect_s: float
    """Seconds, default `15.0`: time to reach the broker at the start."""

    stuck_s: float
    """Seconds, default `300.0`: age of an unfinished record, or of lag without progress, at which health
    turns red.
    """

    unreachable_s: float
    """Seconds, default `15.0`: time without an answer of any broker or of one partition's leader, or without
    partitions after all were lost, at which health turns red.
    """

    idle_s: float
    """Seconds, default `5.0`: silence of a partition after which `on_idle` is called."""

    report_interval_s: float
    """Seconds, default `60.0`: time between two lines of the log that say what each handler does
    (`HandlerReport`); 0 for none.
    """

    consumer: Mapping[str, Any]
    """Default `{}`: librdkafka's properties."""

    producer: Mapping[str, Any]
    """Default `{}`: librdkafka's properties for the producers of outputs, dead letters and `app.producer`,
    such as `partitioner` (`"murmur2_random"` if not set), `linger.ms`, `compression.type`.
    """
