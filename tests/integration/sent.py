"""What readers find of a stage's topics, and settings of apps that send exactly once."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.contract.outputs_order import problems
from tests.kit.topic_read import read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTPUT_PARTITIONS = 4
# How long the broker lets a transaction be open, and how often Apache Kafka looks for one that is older.
TRANSACTION_MS = 2000
BROKER_CHECKS_S = 10.0
# Until no transaction is open any more, on a machine that many share.
DECIDED_S = TRANSACTION_MS / 1000 + BROKER_CHECKS_S + 60.0
READ_S = 60.0
READ_AT_ONCE_S = 0.1


def settings(**values: Any) -> list[str]:
    """Return these settings as a member's command line has them."""
    pairs = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    return [part for pair in pairs for part in ("--setting", pair)]


def exactly_once(transaction_ms: int = TRANSACTION_MS, **more: Any) -> list[str]:
    """Return the settings of an app that sends exactly once, at its own pace."""
    producer = {"transaction.timeout.ms": transaction_ms}
    return settings(exactly_once=True, commit_interval_s=None, producer=producer, **more)


def inputs_of(stage: Any) -> dict[bytes, list[bytes]]:
    """Return what each key's outputs are to be, in order."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for message in read_messages(stage.broker.bootstrap, stage.topic):
        found[message.key()].append(b"%d:%d" % (message.partition(), message.offset()))
    return found


def verdict(stage: Any) -> list[str]:
    """Return what is wrong with the outputs and letters that a reader of committed transactions sees."""
    inputs, bootstrap = inputs_of(stage), stage.broker.bootstrap
    outputs = read(bootstrap, f"{stage.topic}-out", OUTPUT_PARTITIONS)
    found = problems(inputs, ((message.key(), message.value()) for message in outputs), repeats=False)
    letters = sum(1 for _ in read(bootstrap, f"{stage.topic}-dead", 1))
    return [*found, f"{letters} letters"] if letters else found


def read(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    """Yield every message of a topic, but those of aborted transactions, each partition in its order."""
    ends = decided_ends(bootstrap, topic, partitions)
    properties = {"bootstrap.servers": bootstrap, "group.id": "reads", "log_level": 0}
    reader = Consumer({**properties, "isolation.level": "read_committed", "enable.partition.eof": True})
    try:
        for number in range(partitions):
            reader.assign([TopicPartition(topic, number, 0)])
            yield from _to_the_end(reader, number, ends[number])
    finally:
        reader.close()


def _to_the_end(reader: Any, partition: int, end: int) -> Iterator[Any]:
    ends_s = time.monotonic() + READ_S
    while time.monotonic() < ends_s:
        # It waits for so many however long the partition has ended.
        for message in reader.consume(1000, READ_AT_ONCE_S):
            ends_s = time.monotonic() + READ_S
            assert message.partition() == partition
            if message.error() is None:
                yield message
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF
            assert message.offset() == end, "nothing is held back by a transaction"
            return
    raise AssertionError(f"partition {partition} does not end at {end}")


def decided_ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Wait until no transaction is open, and return where each partition ends then."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def ends(level: IsolationLevel) -> dict[int, int]:
        latest = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        answers = admin.list_offsets(latest, isolation_level=level)
        return {place.partition: future.result().offset for place, future in answers.items()}

    def decided() -> dict[int, int] | None:
        stable = ends(IsolationLevel.READ_COMMITTED)
        return stable if stable == ends(IsolationLevel.READ_UNCOMMITTED) else None

    found: dict[int, int] = wait_until(decided, f"no transaction is open in {topic}", DECIDED_S)
    return found


class Stopwatch:
    """Tells how long something took, to the log and to pytest's report."""

    def __init__(self, record_property: Any, name: str) -> None:
        self._record = record_property
        self._name = name
        self._began_s = time.monotonic()

    def stop(self) -> float:
        """Return the seconds since it was made."""
        took_s = time.monotonic() - self._began_s
        self._record(self._name, f"{took_s:.1f} s")
        logging.getLogger(__name__).warning("%s: %.1f s", self._name, took_s)
        return took_s
