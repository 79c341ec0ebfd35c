"""What readers find of a stage's topics, and settings of apps that send exactly once."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.contract.outputs_order import problems
from tests.kit.topic_read import letters_of, read_all, read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import ehkafka

OUTPUT_PARTITIONS = 4
TIMEOUT_S = 60.0
# How long the broker lets a transaction be open, and how often Apache Kafka looks for one that is older.
TRANSACTION_MS = 2000
BROKER_CHECKS_S = 10.0
# Until no transaction is open any more, on a machine that many share.
DECIDED_S = TRANSACTION_MS / 1000 + BROKER_CHECKS_S + 60.0


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
    for name, partitions in (("out", OUTPUT_PARTITIONS), ("dead", 1)):
        decided_ends(bootstrap, f"{stage.topic}-{name}", partitions)
    found = problems(inputs, read_all(bootstrap, f"{stage.topic}-out"), repeats=False)
    letters = len(read_all(bootstrap, f"{stage.topic}-dead"))
    return [*found, f"{letters} letters"] if letters else found


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


class Sent:
    """One stage with topics for outputs and letters, and what they hold in the end."""

    def __init__(self, stage: Any, limits: dict[str, str] | None = None) -> None:
        self.stage = stage
        self.out, self.dead = f"{stage.topic}-out", f"{stage.topic}-dead"
        stage.broker.create_topic(self.out, 2, limits)
        stage.broker.create_topic(self.dead, 1)
        self.load = stage.load(keys=[b"key-%d" % number for number in range(20)])

    def app(self, handler: Any, **options: Any) -> ehkafka.App:
        """Return an app that sends exactly once."""
        options = {"to": self.out, "exactly_once": True, **options}
        app: ehkafka.App = self.stage.app(handler, **options)
        return app

    def run(self, app: ehkafka.App, count: int = 300, timeout_s: float = TIMEOUT_S) -> None:
        """Produce so many, handle and commit all, and stop."""
        self.load.produce(count)
        app.start()
        self.stage.wait_until_committed(self.load.ends, timeout_s)
        app.stop()

    def places(self) -> list[str]:
        """Return the place of each record that was produced."""
        return [f"{number}:{offset}" for number, end in self.load.ends.items() for offset in range(end)]

    def outputs(self) -> list[str]:
        """Return what readers see."""
        return [value.decode() for _, value in read_all(self.stage.broker.bootstrap, self.out)]

    def letters(self) -> list[tuple[int, int]]:
        """Return the places of all dead letters."""
        found = letters_of(self.stage.broker.bootstrap, self.dead)
        return sorted((partition, offset) for partition, offset, _ in found)

    def check(self, without: tuple[str, ...] = ()) -> None:
        """See that each record's output is there once, and each key's in order."""
        gone = {place.encode() for place in without}
        wanted = {
            key: [one for one in all_of if one not in gone] for key, all_of in inputs_of(self.stage).items()
        }
        found = problems(wanted, read_all(self.stage.broker.bootstrap, self.out), repeats=False)
        assert found == [], f"FACT: outputs are lost, repeated or out of order: {found[:20]}"


def place_of(record: Any) -> str:
    """Return what a record's output says."""
    return f"{record.partition()}:{record.offset()}"


def plain(record: Any) -> str:
    """Send one."""
    return place_of(record)
