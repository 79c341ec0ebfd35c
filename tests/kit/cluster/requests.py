"""The requests to one node of Kafka that confluent-kafka does not send, or not to a node of one's choice.

Each opens a connection, sends one request and reads the answer; `OSError` when the node does not answer
within `timeout_s`, also when it is frozen. Fields as Kafka's message definitions have them (4.2).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from ehkafka.errors import EndpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

METADATA: Final = 3
ELECT_LEADERS: Final = 43
ALTER_PARTITION_REASSIGNMENTS: Final = 45
DESCRIBE_QUORUM: Final = 55
QUORUM_TOPIC: Final = "__cluster_metadata"
NOT_LEADER: Final = 6


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as one node sees it; `leader` is -1 while there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What one node answers to Metadata: the nodes that live, and all partitions."""

    nodes: frozenset[int]
    partitions: Mapping[tuple[str, int], PartitionState]


def cluster_state(address: str, timeout_s: float) -> ClusterState:
    """Ask one node for all topics (Metadata, version 1)."""
    answer = _Answer(_asked(address, METADATA, 1, struct.pack(">i", -1), timeout_s, flexible=False))
    nodes = frozenset(_node(answer) for _ in range(answer.int32()))
    answer.int32()  # the controller's id, which in KRaft is any node's
    partitions: dict[tuple[str, int], PartitionState] = {}
    for _ in range(answer.int32()):
        answer.int16()
        topic = answer.text()
        answer.take(1)  # is it internal?
        for _ in range(answer.int32()):
            _, number, leader = answer.int16(), answer.int32(), answer.int32()
            partitions[topic, number] = PartitionState(leader, answer.int32s(), answer.int32s())
    return ClusterState(nodes, partitions)


def led_quorum_epoch(address: str, timeout_s: float) -> int | None:
    """Ask a controller's listener for the epoch in which it leads the quorum; `None` when another does."""
    topic = _compact(QUORUM_TOPIC) + _compact_array([struct.pack(">i", 0) + b"\0"]) + b"\0"
    body = _compact_array([topic]) + b"\0"
    answer = _Answer(_asked(address, DESCRIBE_QUORUM, 0, body, timeout_s, flexible=True))
    if code := answer.int16():
        raise EndpointError(f"DescribeQuorum at {address}: error {code}")
    answer.take(1 + 1 + len(QUORUM_TOPIC) + 1 + 4)  # one topic with its name, and its one partition
    code, _, epoch = answer.int16(), answer.int32(), answer.int32()
    if code not in (0, NOT_LEADER):
        raise EndpointError(f"DescribeQuorum at {address}: error {code} for the partition")
    return epoch if code == 0 else None


def order_replicas(address: str, orders: Mapping[tuple[str, int], Sequence[int]], timeout_s: float) -> None:
    """Give partitions another order of their replicas; the first is the preferred leader.

    One of the same replicas moves no data, so the controller does it at once. Raises `EndpointError`.
    """
    by_topic: dict[str, list[bytes]] = {}
    for (topic, number), replicas in orders.items():
        listed = _compact_array([struct.pack(">i", replica) for replica in replicas])
        by_topic.setdefault(topic, []).append(struct.pack(">i", number) + listed + b"\0")
    topics = [_compact(topic) + _compact_array(parts) + b"\0" for topic, parts in by_topic.items()]
    body = struct.pack(">i", round(timeout_s * 1000)) + _compact_array(topics) + b"\0"
    answer = _Answer(_asked(address, ALTER_PARTITION_REASSIGNMENTS, 0, body, timeout_s, flexible=True))
    answer.int32()
    if code := answer.int16():
        raise EndpointError(f"Ordering replicas at {address}: error {code}, {answer.compact_text()}")
    answer.compact_text()
    for _ in range(answer.varint() - 1):
        topic = answer.compact_text()
        for _ in range(answer.varint() - 1):
            number, code, complaint = answer.int32(), answer.int16(), answer.compact_text()
            answer.take(1)
            if code:
                raise EndpointError(f"Ordering the replicas of {topic}/{number}: error {code}, {complaint}")
        answer.take(1)


def elect_preferred(address: str, partitions: Iterable[tuple[str, int]], timeout_s: float) -> None:
    """Let the first replicas of partitions lead (ElectLeaders, version 1). Raises `EndpointError`.

    A partition whose first replica is not in sync keeps its leader, which is no error.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    body = struct.pack(">bi", 0, len(by_topic))
    for topic, numbers in by_topic.items():
        name = topic.encode()
        body += struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers)
    body += struct.pack(">i", round(timeout_s * 1000))
    answer = _Answer(_asked(address, ELECT_LEADERS, 1, body, timeout_s, flexible=False))
    answer.int32()
    if code := answer.int16():
        raise EndpointError(f"Electing leaders at {address}: error {code}")


def _node(answer: _Answer) -> int:
    number = answer.int32()
    answer.text(), answer.int32(), answer.text()  # host, port, rack
    return number


def _asked(
    address: str, api_key: int, version: int, body: bytes, timeout_s: float, *, flexible: bool
) -> bytes:
    """Send a request and return its answer behind the header."""
    host, _, port = address.rpartition(":")
    tags = b"\0" if flexible else b""
    request = struct.pack(">hhih", api_key, version, 1, -1) + tags + body
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _received(connection, 4))
        return _received(connection, size)[4 + len(tags) :]


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("The node closed the connection before its answer was whole")
        data += piece
    return data


class _Answer:
    """Reads Kafka's primitive types one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = BytesIO(data)

    def take(self, size: int) -> bytes:
        return self._data.read(size)

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def int32s(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.int32()))

    def text(self) -> str:
        return self.take(max(0, self.int16())).decode()

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def compact_text(self) -> str:
        return self.take(max(0, self.varint() - 1)).decode()


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def _compact(text: str) -> bytes:
    return _varint(len(text.encode()) + 1) + text.encode()


def _compact_array(items: Sequence[bytes]) -> bytes:
    return _varint(len(items) + 1) + b"".join(items)
