"""Documented limits of the service, one constant each, with its source.

"Event Hubs docs" below means the pages "Apache Kafka client configurations", "Event Hubs quotas",
"Frequently asked questions" and "Event Hubs emulator" on learn.microsoft.com. Nothing here was measured
against a live namespace. Pure values; read by every room that must stay inside a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_SETTINGS_SOURCE = "Event Hubs docs, Apache Kafka client configurations"
QUOTAS_SOURCE = "Event Hubs docs, quotas"
OVERVIEW_SOURCE = "Event Hubs docs, Apache Kafka overview"
KAFKA_CONSUMER_SOURCE = "Apache Kafka docs, consumer configurations"
LIBRDKAFKA_SOURCE = "librdkafka, CONFIGURATION.md"

# --- what a client may set --------------------------------------------------------------------------

SESSION_TIMEOUT_MS_MIN = 6_000
"""Least `session.timeout.ms` a group may ask for. Source: client configurations."""

SESSION_TIMEOUT_MS_MAX = 300_000
"""Largest `session.timeout.ms` a group may ask for. Source: client configurations."""

SESSION_TIMEOUT_MS_RECOMMENDED = 30_000
"""`session.timeout.ms` to begin with. Source: client configurations."""

HEARTBEAT_MS_RECOMMENDED = 3_000
"""`heartbeat.interval.ms` to keep. Source: client configurations."""

HEARTBEATS_PER_SESSION_RECOMMENDED = 3
"""So many heartbeats fit into a session. Source: Apache Kafka docs, consumer configurations."""

MAX_POLL_MS_RECOMMENDED = 300_000
"""`max.poll.interval.ms`, also the time that a rebalance waits for its members. Source: client
configurations."""

METADATA_MAX_AGE_MS_BELOW = 240_000
"""`metadata.max.age.ms` stays below this: Azure drops TCP connections idle for 240 s.
Source: client configurations."""

METADATA_MAX_AGE_MS_RECOMMENDED = 180_000
"""`metadata.max.age.ms` to use. Source: client configurations."""

METADATA_MAX_AGE_MS_MOST = 2_147_483
"""`metadata.max.age.ms` is at most this, for any broker: librdkafka counts it in microseconds of 32 bits.
With more its metadata are too old at once, and it asks every second. Source: librdkafka 2.16,
rdkafka_metadata_cache.c."""

METADATA_REFRESHES_PER_AGE = 3
"""`metadata.max.age.ms` is so many `topic.metadata.refresh.interval.ms` where it is not given. Source:
librdkafka, CONFIGURATION.md."""

CONNECTIONS_MAX_IDLE_MS_BELOW = 240_000
"""`connections.max.idle.ms` stays below this, for the same reason. Source: client configurations."""

CONNECTIONS_MAX_IDLE_MS_RECOMMENDED = 180_000
"""`connections.max.idle.ms` to use. Source: client configurations."""

REQUEST_TIMEOUT_MS_ABOVE = 20_000
"""A producer's `request.timeout.ms` stays above this, the least the service works with.
Source: client configurations."""

REQUEST_TIMEOUT_MS_RECOMMENDED = 60_000
"""A producer's `request.timeout.ms` to use. Source: client configurations."""

IDEMPOTENT_REQUEST_TIMEOUT_MS_MIN = 60_000
"""Least `request.timeout.ms` of an idempotent producer. Source: client configurations."""

PRODUCE_REQUEST_BYTES_BELOW = 1_046_528
"""The service closes the connection on a produce request of this size or more (Dedicated clusters with
large messages aside). librdkafka's default `message.max.bytes` of 1 000 000 is below it.
Source: client configurations."""

PRODUCE_OVERHEAD_BYTES = 1_024
"""What a produce request of one record needs on top of what librdkafka counts: batch header 61, topic
up to 249, client id, some 50 more. Source: the Kafka protocol."""

LETTER_BYTES_MAX = PRODUCE_REQUEST_BYTES_BELOW - PRODUCE_OVERHEAD_BYTES
"""`message.max.bytes` of our own producers at Event Hubs: the largest record whose request it takes. With
librdkafka's own default, some of what was received would be too large to be copied. Source: client
configurations."""

KAFKA_LETTER_BYTES_MAX = 100 * 1_048_576 - PRODUCE_OVERHEAD_BYTES
"""The same at other brokers, where the topic's own `max.message.bytes` decides: a broker closes the
connection on a larger request (`socket.request.max.bytes`). Source: Apache Kafka docs, broker
configurations."""

COMPRESSION_TYPES = frozenset({"none", "gzip"})
"""Compression that the service takes from a producer. gzip in Premium and Dedicated only.
Source: client configurations, Apache Kafka overview."""

# --- quotas -------------------------------------------------------------------------------------------

DEDICATED_EVENT_BYTES_MAX = 20 * 1_048_576
"""Largest event on a Dedicated cluster with large messages: 20 MB. Source: quotas."""

COMMIT_METADATA_BYTES_MAX = 1_024
"""Longest metadata of a committed offset; Kafka's own default is 4096. Source: quotas."""

COMMIT_INTERVAL_S_MIN = 1.0
"""One call a second, at most one in flight. A partition takes four (source: quotas); users of
azure-event-hubs-for-kafka#197 measured about two, the throttled calls taking 1.1 s."""

COMMIT_IDLE_S = 6 * 3600.0
"""After so long an unchanged position is committed again. How long Event Hubs keeps committed offsets is
not documented (azure-event-hubs-for-kafka#254); the shortest default of any Apache Kafka broker was a day
(before 2.0; 7 days since), so three of four such commits may fail."""

KAFKA_TEXT_BYTES_MAX = 32_767
"""Longest text, a group's name among them, that a request can carry: its length is a signed 16-bit number.
Source: the Kafka protocol."""

GROUP_NAME_CHARACTERS_MAX = 256
"""Longest name of a consumer group. Source: quotas."""

IDLE_CONNECTION_S_MAX = 240
"""Azure's load balancers drop a TCP connection that was idle for so long. Source: client configurations."""

# --- versions -----------------------------------------------------------------------------------------

CLIENT_VERSION_MIN = (2, 14, 0)
"""Oldest confluent-kafka and librdkafka: 2.1 and 2.2 lose commits through leader epochs, and only from
2.13 on is an OAuth token refreshed outside of poll. Source: librdkafka's and the client's change logs."""

CLIENT_VERSIONS_BROKEN = frozenset({(2, 6, 0)})
"""Versions that cannot talk to Event Hubs at all. Source: librdkafka's change log, 2.6.1."""

# --- the same in words, to show a setting ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClientSetting:
    """What the service says about one property; `None` where it says nothing."""

    recommended: str | None
    permitted: str | None
    reason: str


CLIENT_SETTINGS: Mapping[str, ClientSetting] = MappingProxyType(
    {
        "socket.keepalive.enable": ClientSetting(
            "true", None, f"Azure drops connections idle for {IDLE_CONNECTION_S_MAX} s"
        ),
        "metadata.max.age.ms": ClientSetting(
            f"{METADATA_MAX_AGE_MS_RECOMMENDED}",
            f"below {METADATA_MAX_AGE_MS_BELOW}",
            f"Azure drops connections idle for {IDLE_CONNECTION_S_MAX} s",
        ),
        "connections.max.idle.ms": ClientSetting(
            f"{CONNECTIONS_MAX_IDLE_MS_RECOMMENDED}",
            f"below {CONNECTIONS_MAX_IDLE_MS_BELOW}",
            f"Azure drops connections idle for {IDLE_CONNECTION_S_MAX} s",
        ),
        "session.timeout.ms": ClientSetting(
            f"{SESSION_TIMEOUT_MS_RECOMMENDED}",
            f"{SESSION_TIMEOUT_MS_MIN} to {SESSION_TIMEOUT_MS_MAX}",
            "silence after which the group gives the partitions away",
        ),
        "heartbeat.interval.ms": ClientSetting(
            f"{HEARTBEAT_MS_RECOMMENDED}", None, "several must fit into session.timeout.ms"
        ),
        "max.poll.interval.ms": ClientSetting(
            f"{MAX_POLL_MS_RECOMMENDED}",
            "above session.timeout.ms",
            "also the time that a rebalance waits for members",
        ),
        "request.timeout.ms": ClientSetting(
            f"{REQUEST_TIMEOUT_MS_RECOMMENDED}",
            f"above {REQUEST_TIMEOUT_MS_ABOVE}",
            "the service itself takes up to 20 s",
        ),
        "compression.type": ClientSetting(
            "none or gzip", "none or gzip", "gzip needs Premium or Dedicated, and no tier supports another"
        ),
        "message.max.bytes": ClientSetting(
            None,
            f"below {PRODUCE_REQUEST_BYTES_BELOW}",
            "the service closes the connection on a larger produce request",
        ),
    }
)
"""Properties with a recommended or a permitted value. Source of all: client configurations."""
