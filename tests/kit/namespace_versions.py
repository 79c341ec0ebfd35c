"""The versions of Kafka's requests that an Event Hubs namespace offers, and brokers that offer no others.

Seen on a namespace (github.com/aio-libs/aiokafka/issues/945). Fetch ends before topic ids and leader epochs,
Metadata before both, and OffsetForLeaderEpoch is too old for any client of today.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from tests.kit.faults.commit_throttle import Frames, behind_tags, length_at
from tests.kit.faults.tcp_link import Link, Streams
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


class NamespaceProxy(TcpProxy):
    """A `TcpProxy` by which a real broker offers a namespace's versions; plain text only.

    It changes the answers to ApiVersions. `foreign` has the requests that came all the same in a version that
    a namespace does not know, as (API key, version): their connections are closed, as the service does.
    """

    def __init__(self, upstream: str | None = None) -> None:
        super().__init__(upstream)
        # Written by the proxy's thread.
        self.foreign: list[tuple[int, int]] = []
        self.changed_answers = 0

    def link(self, client: Streams, server: Streams) -> Link:
        """See `TcpProxy.link`."""
        return NamespaceLink(self, client, server)


class NamespaceLink(Link):
    """One client's connection. On the proxy's thread."""

    def __init__(self, proxy: NamespaceProxy, client: Streams, server: Streams) -> None:
        super().__init__(proxy, client, server)
        self._namespace = proxy
        self._requests = Frames()
        self._answers = Frames()
        # The versions of the questions about versions, by correlation id.
        self._asked: dict[int, int] = {}

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole requests on, or close the connection."""
        for frame in self._requests.add(data):
            api_key, version, number = struct.unpack_from(">hhi", frame, 4)
            oldest, newest = NAMESPACE.get(api_key, (0, -1))
            if not oldest <= version <= newest:
                self._namespace.foreign.append((api_key, version))
                self.close()
                return
            if api_key == ApiKey.API_VERSIONS:
                self._asked[number] = version
            yield frame

    async def answers(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole answers on; those about versions name a namespace's."""
        for frame in self._answers.add(data):
            (number,) = struct.unpack_from(">i", frame, 4)
            version = self._asked.pop(number, None)
            if version is None:
                yield frame
            else:
                self._namespace.changed_answers += 1
                yield with_namespace_versions(frame, version)


def with_namespace_versions(frame: bytes, version: int) -> bytes:
    """Return an answer to ApiVersions with only what both the broker and a namespace offer.

    By Kafka's protocol guide: its header is the old one in each version. From version 3 on the list is
    compact, and each entry ends with tagged fields, of which there are none.
    """
    flexible = version >= 3
    answer = bytearray(frame)
    count, at = length_at(answer, 10, flexible=flexible)  # behind size, correlation id and error
    kept = []
    for _ in range(count):
        api_key, oldest, newest = struct.unpack_from(">hhh", answer, at)
        at = behind_tags(answer, at + 6) if flexible else at + 6
        offered = NAMESPACE.get(api_key, (0, -1))
        oldest, newest = max(oldest, offered[0]), min(newest, offered[1])
        if oldest <= newest:
            kept.append(struct.pack(">hhh", api_key, oldest, newest) + (b"\0" if flexible else b""))
    size = bytes([len(kept) + 1]) if flexible else struct.pack(">i", len(kept))
    body = bytes(answer[4:10]) + size + b"".join(kept) + bytes(answer[at:])
    return struct.pack(">i", len(body)) + body
