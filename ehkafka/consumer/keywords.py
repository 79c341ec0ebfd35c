"""What the drop-in's constructors and methods take by name, so that editors know each and check its value.

For type checkers. librdkafka's own properties have dots in their names, so a program gives them in a dict;
what is left are confluent-kafka's callbacks and a few more. `python -m tests.typing.declared` writes what is
ours, out of `OwnOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from confluent_kafka import KafkaError
    from confluent_kafka import TopicPartition as KafkaPartition

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.consumer.program_settings import SyncCommit
    from ehkafka.endpoint import Endpoint

    RebalanceCallback = Callable[[Any, list[KafkaPartition]], Any]


class ClientProperties(TypedDict, total=False):
    """What confluent-kafka's consumers take by name."""

    on_commit: Callable[[KafkaError | None, list[KafkaPartition]], object]
    """Called with the answer of each commit, in a later `poll`."""

    error_cb: Callable[[KafkaError], object]
    """Called with errors that librdkafka keeps trying to fix."""

    stats_cb: Callable[[str], object]
    """Called with librdkafka's statistics as JSON, each `statistics.interval.ms`."""

    throttle_cb: Callable[[Any], object]
    """Called when a broker has throttled a request, with a `confluent_kafka.ThrottleEvent`."""

    oauth_cb: Callable[[str], tuple[str, float] | tuple[str, float, str, dict[str, str]]]
    """Called for a token, with `sasl.oauthbearer.config`; returns it and when it ends."""

    logger: logging.Logger
    """Where librdkafka's own log lines go."""

    log_level: int
    """Which of these there are, by syslog's numbers."""

    debug: str
    """librdkafka's debug contexts, such as `"cgrp,fetch"`."""


class OwnKeywords(TypedDict, total=False):
    """What every drop-in takes in addition to confluent-kafka's arguments."""

    endpoint: Endpoint | None
    """Default `None`: an `ehkafka.Endpoint`."""

    mirror: MirrorChoice | None
    """Default `None`: where commits are copied to, and where a partition without a commit begins."""

    contiguous: bool
    """Default `False`: whether records may be finished in any order, by any thread."""

    unmarked_records_max: int
    """Records, default `50_000`: with `contiguous`, how many may be delivered and not marked as done, all
    partitions together.
    """

    unmarked_bytes_max: int
    """Bytes, default `128 * 1024 * 1024`: the same in bytes."""

    sync_commit: SyncCommit
    """Default `"acknowledged"`: when a synchronous commit returns."""

    close_s: float | None
    """Seconds, default `25.0`: how long `close()`, and the end of a consumer that is not closed, wait for a
    broker that does not answer; `None`: as long as confluent-kafka, 45 s and more.
    """


class ConsumerOptions(ClientProperties, OwnKeywords, total=False):
    """What `DeserializingConsumer` takes in addition to its dict: as `Consumer` does."""


class RebalanceCallbacks(TypedDict, total=False):
    """What `subscribe` takes by name."""

    on_assign: RebalanceCallback | None
    """Called with new partitions, before the first message of theirs."""

    on_revoke: RebalanceCallback | None
    """Called with partitions that go, while they are still ours."""

    on_lost: RebalanceCallback | None
    """Called with partitions that are gone already; `on_revoke` is, where this is not given."""


class TimeLimit(TypedDict, total=False):
    """What `committed` takes by name."""

    timeout: float
    """How long to wait, in seconds."""
