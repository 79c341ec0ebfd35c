"""The requests to one node of Kafka that confluent-kafka does not send, or not to a node of one's choice.

Each opens a connection, sends one request and reads the answer; `OSError` when the node does not answer
within `timeout_s`, also when it is frozen. Fields as Kafka's message definitions have them (4.2).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.errors import EndpointError
from tests.kit.faults.frames import Fields

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
    answer = _asked(address, METADATA, 1, struct.pack(">i", -1), timeout_s)
    nodes = frozenset(_node(answer) for _ in range(answer.count()))
    answer.number()  # the controller's id, which in KRaft is any node's
    partitions: dict[tuple[str, int], PartitionState] = {}
    for _ in range(answer.count()):
        answer.number(2)
        topic = answer.text()
        answer.take(1)  # is it internal?
        for _ in range(answer.count()):
            _, number, leader = answer.number(2), answer.number(), answer.number()
            partitions[topic, number] = PartitionState(leader, _numbers(answer), _numbers(answer))
    return ClusterState(nodes, partitions)


def led_quorum_epoch(address: str, timeout_s: float) -> int | None:
    """Ask a controller's listener for the epoch in which it leads the quorum; `None` when another does."""
    topic = _compact(QUORUM_TOPIC) + _compact_array([struct.pack(">i", 0) + b"\0"]) + b"\0"
    body = _compact_array([topic]) + b"\0"
    answer = _asked(address, DESCRIBE_QUORUM, 0, body, timeout_s, flexible=True)
    if code := answer.number(2):
        raise EndpointError(f"DescribeQuorum at {address}: error {code}")
    answer.take(1 + 1 + len(QUORUM_TOPIC) + 1 + 4)  # one topic with its name, and its one partition
    code, _, epoch = answer.number(2), answer.number(), answer.number()
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
    answer = _asked(address, ALTER_PARTITION_REASSIGNMENTS, 0, body, timeout_s, flexible=True)
    answer.number()
    if code := answer.number(2):
        raise EndpointError(f"Ordering replicas at {address}: error {code}, {answer.text()}")
    answer.text()
    for _ in range(answer.count()):
        topic = answer.text()
        for _ in range(answer.count()):
            number, code, complaint = answer.number(), answer.number(2), answer.text()
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
    answer = _asked(address, ELECT_LEADERS, 1, body, timeout_s)
    answer.number()
    if code := answer.number(2):
        raise EndpointError(f"Electing leaders at {address}: error {code}")


def _numbers(answer: Fields) -> tuple[int, ...]:
    return tuple(answer.number() for _ in range(answer.count()))


def _node(answer: Fields) -> int:
    number = answer.number()
    answer.text(), answer.number(), answer.text()  # host, port, rack
    return number


def _asked(
    address: str, api_key: int, version: int, body: bytes, timeout_s: float, *, flexible: bool = False
) -> Fields:
    """Send a request and return its answer behind the header."""
    host, _, port = address.rpartition(":")
    tags = b"\0" if flexible else b""
    request = struct.pack(">hhih", api_key, version, 1, -1) + tags + body
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _received(connection, 4))
        return Fields(_received(connection, size), 4 + len(tags), flexible=flexible)


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("The node closed the connection before its answer was whole")
        data += piece
    return data


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
