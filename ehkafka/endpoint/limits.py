"""Documented limits of the service, one constant each, with its source.

"Event Hubs docs" below means the pages "Apache Kafka client configurations", "Event Hubs quotas" and
"Frequently asked questions" on learn.microsoft.com. Nothing here was measured against a live namespace.
Pure values; read by every room that must stay inside a limit.
"""

from __future__ import annotations

CLIENT_SETTINGS_SOURCE = "Event Hubs docs, Apache Kafka client configurations"

SESSION_TIMEOUT_MS_MIN = 6_000
"""Least `session.timeout.ms` a group may ask for. Source: client configurations."""

SESSION_TIMEOUT_MS_MAX = 300_000
"""Largest `session.timeout.ms` a group may ask for. Source: client configurations."""

METADATA_MAX_AGE_MS_BELOW = 240_000
"""`metadata.max.age.ms` stays below this: Azure drops TCP connections idle for 240 s.
Source: client configurations."""

CONNECTIONS_MAX_IDLE_MS_BELOW = 240_000
"""`connections.max.idle.ms` stays below this, for the same reason. Source: client configurations."""

REQUEST_TIMEOUT_MS_ABOVE = 20_000
"""A producer's `request.timeout.ms` stays above this, the least the service works with.
Source: client configurations."""

PRODUCE_REQUEST_BYTES_BELOW = 1_046_528
"""The service closes the connection on a produce request of this size or more (Dedicated clusters with
large messages aside). librdkafka's default `message.max.bytes` of 1 000 000 is below it.
Source: client configurations."""

COMPRESSION_TYPES = frozenset({"none", "gzip"})
"""Compression that the service takes from a producer. Source: client configurations, FAQ."""

EVENT_BYTES_MAX = 1_048_576
"""Largest event, its headers included: 1 MB (20 MB on Dedicated). Source: quotas."""

COMMIT_METADATA_BYTES_MAX = 1_024
"""Longest metadata of a committed offset; Kafka's own default is 4096. Source: quotas."""

COMMIT_CALLS_PER_PARTITION_PER_S = 4
"""OffsetCommit calls that a partition takes in a second. Source: quotas. Users of
azure-event-hubs-for-kafka#197 measured about 2, the throttled calls taking 1.1 s."""

COMMIT_INTERVAL_S_MIN = 1.0
"""Pace that stays inside both: one call a second, at most one in flight, is half of the measured rate."""

GROUP_NAME_CHARACTERS_MAX = 256
"""Longest name of a consumer group. Source: quotas."""

CLIENT_VERSION_MIN = (2, 14, 0)
"""Oldest confluent-kafka and librdkafka: 2.1 and 2.2 lose commits through leader epochs, and only from
2.13 on is an OAuth token refreshed outside of poll. Source: librdkafka's and the client's change logs."""

CLIENT_VERSIONS_BROKEN = frozenset({(2, 6, 0)})
"""Versions that cannot talk to Event Hubs at all. Source: librdkafka's change log, 2.6.1."""
