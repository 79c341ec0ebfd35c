"""Topics of every kind on a real broker, for those who compare what two readers make of them."""

from __future__ import annotations

import random
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ehkafka.embedded.topics import produce
from tests.kit.topic_read import read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker

PLAIN, APPENDED, COMPACTED, KEYS, TRANSACTIONS = 60_000, 36_000, 8_000, 500, 40
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
# Of the first, the last millisecond of a second, far before 1 January 2000, and what is usual.
TIMES_MS = (1, 999, 86_400_000, 1_600_000_000_123, 1_700_000_000_000)
KEYS_AND_VALUES = (None, b"", b"\x00", b"\xff\xfe", "schlüssel".encode(), b"a" * 300)
HEADERS: Final[tuple[Any, ...]] = (
    None,
    [],
    [("a", b"1")],
    [("a", b"1"), ("a", b"2"), ("a", b"1")],
    [("", b""), ("n", None), ("ü", b"\x00\xff")],
    [(f"h{number}", b"%d" % number) for number in range(12)],
)
COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",  # of the records' own time
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": str(7 * 86_400_000),
}


@contextmanager
def awkward_topics(kafka: KafkaBroker, share: float = 1.0) -> Iterator[dict[str, str]]:
    """Make topics and return their names by what they are: plain, appended, compacted, transactions.

    `share` of the first two's records are written.
    """
    mark = uuid.uuid4().hex[:8]
    names = {kind: f"{kind}-{mark}" for kind in ("plain", "appended", "compacted", "transactions")}
    kafka.create_topic(names["plain"], 3, {"retention.ms": "-1"})
    kafka.create_topic(names["appended"], 2, {"message.timestamp.type": "LogAppendTime"})
    kafka.create_topic(names["compacted"], 1, COMPACTION)
    kafka.create_topic(names["transactions"], 1, {"retention.ms": "-1"})
    with _quick_cleaner(kafka):
        _compactable(kafka, names["compacted"])
        _awkward(kafka, names["plain"], int(PLAIN * share))
        _awkward(kafka, names["appended"], int(APPENDED * share))
        _transactions(kafka, names["transactions"])
        _wait_until_compacted(kafka, names["compacted"])
        yield names


@contextmanager
def _quick_cleaner(kafka: KafkaBroker) -> Iterator[None]:
    """Let the broker look for logs to compact all the time instead of every 15 seconds."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def change(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(15)

    change(AlterConfigOpType.SET)
    yield
    change(AlterConfigOpType.DELETE)


def _awkward(kafka: KafkaBroker, topic: str, count: int) -> None:
    """Produce every combination of keys, values, headers and times many times over, by every codec."""
    dice = random.Random(7)
    for codec in CODECS:
        properties = {"bootstrap.servers": kafka.bootstrap, "linger.ms": 20, "compression.type": codec}
        producer = Producer(properties)
        for number in range(count // len(CODECS)):
            if number % 10_000 == 9_999:
                producer.flush(30)
            producer.produce(
                topic,
                key=dice.choice(KEYS_AND_VALUES),
                value=dice.choice((*KEYS_AND_VALUES, b"%d" % number)),
                headers=dice.choice(HEADERS),
                timestamp=dice.choice(TIMES_MS),
                partition=-1,
            )
        assert producer.flush(30) == 0


def _compactable(kafka: KafkaBroker, topic: str) -> None:
    """Produce many values and some tombstones for few keys, then what begins a new segment."""
    dice = random.Random(8)
    pairs = [
        (b"%d" % dice.randrange(KEYS), b"%d" % number if number % 5 else None) for number in range(COMPACTED)
    ]
    produce(kafka.bootstrap, topic, pairs, timestamp_ms=1_700_000_000_000)
    produce(kafka.bootstrap, topic, [(b"new segment", b"")] * 3, timestamp_ms=1_700_000_100_000)


def _transactions(kafka: KafkaBroker, topic: str) -> None:
    """Produce transactions, every third of them aborted; the log ends in a control record."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for each in range(100):
            producer.produce(topic, b"%d" % each, b"%d" % number)
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)


def _wait_until_compacted(kafka: KafkaBroker, topic: str) -> None:
    """Wait until each key of the closed segment is there once."""
    wait_until(
        lambda: len(read_messages(kafka.bootstrap, topic)) <= KEYS + 3,
        "the broker compacts the topic",
        timeout_s=300.0,
        meanwhile=lambda: time.sleep(0.2),
    )
