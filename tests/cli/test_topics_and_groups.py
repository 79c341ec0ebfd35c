"""`ehkafka topics` and `ehkafka groups`: what a broker has, as far as it tells."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from ehkafka.cli.commands import cli
from ehkafka.cli.topics import _retention
from ehkafka.embedded.topics import produce as fill
from ehkafka.offsets.cluster import TopicView
from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with two topics, of which one has seven records."""
    with EmbeddedBroker({"orders": 2, "empty": 1}) as broker:
        broker.produce("orders", [(b"k", b"v")] * 7, partition=1)
        yield broker


def run(bootstrap: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, stdout and stderr."""
    ended = CliRunner().invoke(cli, [*arguments, "--endpoint", bootstrap, "--timeout", "5"])
    return ended.exit_code, ended.stdout, ended.stderr


def found(bootstrap: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the rows of a list, for programs."""
    code, text, words = run(bootstrap, *arguments, "--json")
    assert (code, words) == (0, "")
    rows: list[dict[str, Any]] = orjson.loads(text)[arguments[0]]
    return rows


def test_topics_are_listed_with_their_size(broker: EmbeddedBroker) -> None:
    """By name; what retention removed does not count. The embedded broker tells no settings."""
    broker.delete_records("orders", 1, 3)
    code, text, _ = run(broker.bootstrap, "topics")
    assert code == 0
    assert [line.split() for line in text.splitlines()] == [
        ["TOPIC", "PARTITIONS", "RECORDS", "RETENTION"],
        ["empty", "1", "0", "–"],
        ["orders", "2", "4", "–"],
        [],
        ["2", "topics"],
    ]
    (only,) = found(broker.bootstrap, "topics", "--topic", "orders")
    assert (only["topic"], only["partitions"], only["offsets"]) == ("orders", 2, 4)
    assert (only["retention_ms"], only["cleanup_policy"], only["problem"]) == (None, None, None)


def test_a_topic_without_a_leader_hides_no_other(broker: EmbeddedBroker) -> None:
    """Its row says what is wrong, and the others have their numbers."""
    broker.move_leader("empty", 0, None)
    empty, orders = found(broker.bootstrap, "topics")
    assert (empty["offsets"], orders["offsets"]) == (None, 7)
    assert "no broker leads empty[0]" in empty["problem"]


def test_a_topic_that_is_not_there_is_explained(broker: EmbeddedBroker) -> None:
    """The name that was meant is offered."""
    code, text, words = run(broker.bootstrap, "topics", "--topic", "order")
    assert (code, text) == (3, "")
    assert "Did you mean 'orders'" in words


@pytest.mark.parametrize(
    ("retention_ms", "cleanup", "expected"),
    [
        (None, "", None),
        (604_800_000, "delete", "7 d"),
        (3_600_000, "", "60 min"),
        (-1, "delete", "unlimited"),
        (604_800_000, "compact", "compacted"),
        (604_800_000, "delete,compact", "compacted, 7 d"),
    ],
)
def test_retention_is_read_at_a_glance(retention_ms: int | None, cleanup: str, expected: str | None) -> None:
    """Compacted topics keep records without a limit of time, unless they delete too."""
    assert _retention(TopicView("t", 1, 0, "", retention_ms, cleanup)) == expected


def test_a_broker_that_lists_no_groups_is_explained(broker: EmbeddedBroker) -> None:
    """The embedded broker has no such request: one sentence, with what works there."""
    code, text, words = run(broker.bootstrap, "groups")
    assert (code, text) == (3, "")
    assert "the broker does not list its groups: _UNSUPPORTED_FEATURE" in words
    assert "ehkafka lag TOPIC --group GROUP" in words


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit partition 0 for a group without joining it."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415 - ours has the same name

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.broker
def test_on_apache_kafka_groups_have_state_members_and_lag(kafka: KafkaBroker) -> None:
    """Of one that commits, of one whose members read, and of none that has nothing to do with the topic."""
    name = uuid.uuid4().hex[:8]
    first, second = f"a-{name}", f"b-{name}"
    kafka.create_topic(first, 2)
    kafka.create_topic(second, 1)
    for partition in range(2):
        fill(kafka.bootstrap, first, [(b"k", b"v")] * 10, partition=partition)
    fill(kafka.bootstrap, second, [(b"k", b"v")] * 5)
    commit(kafka.bootstrap, f"idle-{name}", first, 4)
    commit(kafka.bootstrap, f"idle-{name}", second, 5)
    commit(kafka.bootstrap, f"other-{name}", second, 0)
    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"live-{name}"})
    reader.subscribe([first])
    while not reader.assignment():
        reader.poll(0.1)
    try:
        groups = {one["group"]: one for one in found(kafka.bootstrap, "groups") if name in one["group"]}
        of_first = {one["group"]: one["lag"] for one in found(kafka.bootstrap, "groups", "--topic", first)}
    finally:
        reader.close()
    idle, live, other = (groups[f"{kind}-{name}"] for kind in ("idle", "live", "other"))
    assert (idle["state"], idle["members"], idle["lag"]) == ("empty", 0, 16)
    assert idle["topics"] == [{"topic": first, "lag": 16}, {"topic": second, "lag": 0}]
    assert (live["state"], live["members"], live["lag"]) == ("stable", 1, 20)
    assert (other["state"], other["lag"]) == ("empty", 5)
    assert of_first == {f"idle-{name}": 16, f"live-{name}": 20}


@pytest.mark.broker
def test_on_apache_kafka_topics_have_their_retention(kafka: KafkaBroker) -> None:
    """The broker tells it, and its own topics are left out."""
    name = f"kept-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 1, {"retention.ms": "86400000", "cleanup.policy": "compact,delete"})
    commit(kafka.bootstrap, name, name, 0)  # makes Kafka's topic of commits
    topics = {one["topic"]: one for one in found(kafka.bootstrap, "topics")}
    assert topics[name]["retention_ms"] == 86_400_000
    assert set(topics[name]["cleanup_policy"].split(",")) == {"compact", "delete"}
    assert "__consumer_offsets" not in topics
