"""Members that send exactly once, killed and started again, and the judgement over what a reader sees."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ehkafka.progress.metadata import Unusable, decode
from tests.contract.outputs_order import problems
from tests.integration.output_kills import INPUT_PARTITIONS, OUTPUT_PARTITIONS, Killing, inputs_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long the broker lets a transaction be open, and how often Apache Kafka looks for one that is older.
TRANSACTION_MS = 2000
BROKER_CHECKS_S = 10.0
# Until no transaction is open any more, on a machine that many share.
DECIDED_S = TRANSACTION_MS / 1000 + BROKER_CHECKS_S + 60.0
SLOW_MS = 40.0
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


@dataclass
class ExactlyOnce(Killing):
    """One group of members that send exactly once, some keys of which are slow: commits have ranges."""

    def __post_init__(self) -> None:
        """Make the topics and the members, and note what commits have before each kill."""
        self.more = [*exactly_once(), "--slow-ms", f"{SLOW_MS:g}", *self.more]
        self.finished_above: list[int] = []
        self.before_kill = lambda _number: self.finished_above.append(finished_above(self.stage))
        super().__post_init__()

    def judge(self) -> None:
        """Look at every output and every letter that is committed: each is there once, in its key's order."""
        found, counts = verdict(self.stage, self.large_every)
        logging.getLogger(__name__).info(
            "%s: %s, %d kills, finished above the commits before them: %s",
            ", ".join(self.kinds),
            counts,
            self.kills,
            self.finished_above,
        )
        assert found == [], f"FACT: not exactly once: {found[:20]}"


def verdict(stage: Any, large_every: int = 0, partitions: int = INPUT_PARTITIONS) -> tuple[list[str], str]:
    """Return what is wrong with the outputs and letters that a reader sees, and how many there are."""
    inputs, refused = inputs_of(stage, large_every, partitions)
    bootstrap = stage.broker.bootstrap
    out = f"{stage.topic}-out", OUTPUT_PARTITIONS
    outputs = [(message.key(), message.value()) for message in read(bootstrap, *out)]
    found = problems(inputs, outputs, repeats=False)
    aborted = sum(1 for _ in read(bootstrap, *out, level="read_uncommitted")) - len(outputs)
    letters = [_origin(message) for message in read(bootstrap, f"{stage.topic}-dead", 1)]
    if sorted(letters) != sorted(refused):
        found.append(f"letters: {sorted(letters)} instead of {sorted(refused)}")
    count = sum(map(len, inputs.values()))
    counts = f"{count} inputs, {len(outputs)} outputs and {aborted} aborted"
    return found, f"{counts}, {len(refused)} refused, {len(letters)} letters"


def _origin(message: Any) -> tuple[int, int]:
    headers = dict(message.headers())
    return int(headers["ehkafka-origin-partition"]), int(headers["ehkafka-origin-offset"])


def read(bootstrap: str, topic: str, partitions: int, level: str = "read_committed") -> Iterator[Any]:
    """Yield every message of a topic, but those of aborted transactions, each partition in its order."""
    ends = decided_ends(bootstrap, topic, partitions)
    properties = {"bootstrap.servers": bootstrap, "group.id": "reads", "log_level": 0}
    reader = Consumer({**properties, "isolation.level": level, "enable.partition.eof": True})
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


def finished_above(stage: Any, partitions: int = INPUT_PARTITIONS) -> int:
    """Return how many records the group's commits say to be finished above them, in all."""
    asked = [TopicPartition(stage.topic, number) for number in range(partitions)]
    properties = {"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.group, "log_level": 0}
    # Else it would wait for a transaction that is open.
    reader = Consumer({**properties, "isolation.level": "read_uncommitted"})
    try:
        answers = reader.committed(asked, timeout=READ_S)
    finally:
        reader.close()
    count = 0
    for answer in answers:
        said = decode(answer.metadata or "", answer.offset)
        if not isinstance(said, Unusable):
            count += sum(end - start for start, end in said.ranges.finished)
    return count


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
