"""The versions of Kafka's requests that an Event Hubs namespace offers, and embedded brokers with no others.

A `KafkaProxy` with these `versions` makes a real broker such a namespace. Seen on a namespace
(github.com/aio-libs/aiokafka/issues/945). Fetch ends before topic ids and leader epochs, Metadata before
both, and OffsetForLeaderEpoch is too old for any client of today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.embedded.broker import EmbeddedBroker

if TYPE_CHECKING:
    import pytest

# The oldest and the newest version by API key. No transactions: they are a preview of some tiers.
NAMESPACE = {
    0: (3, 7),  # Produce
    1: (4, 6),  # Fetch
    2: (0, 7),  # ListOffsets
    3: (0, 5),  # Metadata
    8: (0, 8),  # OffsetCommit
    9: (0, 8),  # OffsetFetch
    10: (0, 4),  # FindCoordinator
    11: (0, 7),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 4),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 5),  # DescribeGroups
    16: (0, 4),  # ListGroups
    17: (0, 1),  # SaslHandshake
    18: (0, 3),  # ApiVersions
    19: (0, 6),  # CreateTopics
    20: (0, 2),  # DeleteTopics
    22: (0, 1),  # InitProducerId
    23: (0, 0),  # OffsetForLeaderEpoch
    32: (0, 2),  # DescribeConfigs
    36: (0, 1),  # SaslAuthenticate
    37: (0, 1),  # CreatePartitions
}
# What librdkafka's mock cluster can answer, where that is less; it has these types of request alone.
_MOCK = {0: 9, 1: 11, 2: 7, 3: 12, 8: 9, 9: 6, 10: 3, 11: 6, 12: 5, 13: 4, 14: 4, 18: 2, 22: 4}
_API_KEYS_END = 80


def offer_namespace_versions(patch: pytest.MonkeyPatch) -> None:
    """Let each embedded broker that starts from now on offer a namespace's versions."""
    start = EmbeddedBroker.start

    def started(broker: EmbeddedBroker) -> EmbeddedBroker:
        started = start(broker)
        for api_key in range(_API_KEYS_END):
            oldest, newest = NAMESPACE.get(api_key, (0, 0))
            versions = (oldest, min(newest, _MOCK[api_key])) if api_key in _MOCK else (-1, -1)
            broker._call("rd_kafka_mock_set_apiversion", api_key, *versions)
        return started

    patch.setattr(EmbeddedBroker, "start", started)
