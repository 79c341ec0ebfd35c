"""The proxy that treats commits as Event Hubs does: delays, refusals, and its own record of them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.kit.faults.kafka_proxy import CommitPolicy, KafkaProxy, with_commit_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.testing import EmbeddedBroker

BUSY = KafkaError.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def proxy(broker: EmbeddedBroker) -> Iterator[KafkaProxy]:
    """Put the proxy before the embedded broker, which names its address to clients."""
    with KafkaProxy(broker.bootstrap) as running:
        broker.advertise("127.0.0.1", running.port)
        yield running


def test_commits_beyond_the_rate_are_refused(
    broker: EmbeddedBroker, proxy: KafkaProxy, consumer: Any, commit: Callable[..., float]
) -> None:
    """Of three in a row with two a second allowed, the third gets the error (one that is not retried)."""
    proxy.policy = CommitPolicy(
        per_s=2, excess_delay_s=0.1, excess_code=KafkaError.TOPIC_AUTHORIZATION_FAILED
    )
    with consumer(broker, **{"bootstrap.servers": proxy.address}) as client:
        commit(client, 1)
        commit(client, 2)
        with pytest.raises(KafkaException) as refused:
            commit(client, 3)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert [seen.excess for seen in proxy.commits] == [False, False, True]


def _answer(version: int, *, tags: bool = False) -> tuple[bytes, list[int]]:
    """Build an OffsetCommit answer of one topic and two partitions; also where its error codes are."""
    flexible = version >= 8
    body = bytearray(struct.pack(">i", 77))
    extra = b"\x01\x05\x03abc" if tags else b"\x00"  # one tagged field, number 5, of three bytes
    body += extra if flexible else b""
    body += b"\0\0\0\0" if version >= 3 else b""
    body += b"\x02" if flexible else struct.pack(">i", 1)
    name = b"orders"
    body += b"i" * 16 if version >= 10 else bytes([len(name) + 1]) + name if flexible else b"\0\6" + name
    body += b"\x03" if flexible else struct.pack(">i", 2)
    places = []
    for number in range(2):
        body += struct.pack(">i", number)
        places.append(4 + len(body))
        body += b"\0\0" + (extra if flexible else b"")
    body += extra + extra if flexible else b""
    return struct.pack(">i", len(body)) + bytes(body), places


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("tags", [False, True])
def test_an_answer_of_every_version_can_be_refused(version: int, *, tags: bool) -> None:
    """Exactly the error code of every partition changes."""
    frame, places = _answer(version, tags=tags)
    refused = with_commit_error(frame, version, BUSY)
    assert [int.from_bytes(refused[at : at + 2], "big", signed=True) for at in places] == [BUSY, BUSY]
    assert with_commit_error(refused, version, 0) == frame
