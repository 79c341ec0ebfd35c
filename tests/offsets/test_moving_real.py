"""A group's offsets on Apache Kafka, with checkpoints that the Azure SDK wrote into Blob Storage."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from ehkafka.cli.commands import cli
from ehkafka.embedded.topics import commits, produce
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.azurite import Azurite

pytestmark = pytest.mark.broker

HOST = "home.servicebus.windows.net"
RECORDS = 20
HOUR_MS = 3_600_000


class Group:
    """A topic of three partitions and a group of its own, and the command for them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"offsets-{uuid.uuid4().hex[:8]}"
        self.name = f"g-{self.topic}"

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, stdout and stderr."""
        where = ["--group", self.name, "--endpoint", self.bootstrap]
        ended = CliRunner().invoke(cli, [*arguments, *where])
        return ended.exit_code, ended.stdout, ended.stderr

    def reset(self, *arguments: str) -> tuple[int, str, str]:
        """Reset without a watch."""
        return self.run("offsets", "reset", self.topic, "--watch-for", "0", "--yes", *arguments)

    def committed(self) -> dict[int, int]:
        """Return the group's commits."""
        found = commits(self.bootstrap, self.name, self.topic)
        return {one.partition: one.offset for one in found if one.offset >= 0}


@pytest.fixture
def group(kafka: KafkaBroker) -> Group:
    """Return a topic with records, half of them an hour old."""
    made = Group(kafka.bootstrap)
    kafka.create_topic(made.topic, 3)
    now_ms = int(time.time() * 1000)
    for partition in range(3):
        for start_ms in (now_ms - HOUR_MS, now_ms):
            records = [(b"k", b"v")] * (RECORDS // 2)
            produce(made.bootstrap, made.topic, records, partition=partition, timestamp_ms=start_ms)
    return made


@pytest.fixture
def container(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any]]:
    """Return a new container's name and the Azure SDK's own checkpoint store in it."""
    from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore  # noqa: PLC0415 - slow

    name = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(name)
    monkeypatch.setenv("EHKAFKA_MIRROR_CONNECTION_STRING", azurite.connection_string())
    with BlobCheckpointStore.from_connection_string(azurite.connection_string(), name) as store:
        yield name, store


def checkpoint(topic: str, partition: int, number: int, consumer_group: str = "$Default") -> dict[str, Any]:
    """Return what the SDK is to keep."""
    return {
        "fully_qualified_namespace": HOST,
        "eventhub_name": topic,
        "consumer_group": consumer_group,
        "partition_id": str(partition),
        "sequence_number": number,
        "offset": str(number * 100),
    }


def test_the_sdks_own_checkpoints_are_imported(group: Group, container: tuple[str, Any]) -> None:
    """Committed = sequence number + 1, and the container is as it was."""
    name, store = container
    for partition, number in ((0, 4), (1, 0), (2, RECORDS - 1)):
        store.update_checkpoint(checkpoint(group.topic, partition, number))
    store.update_checkpoint(checkpoint("other", 0, 7))
    code, text, error = group.run(
        "offsets", "import", group.topic, "--from", name, "--watch-for", "0", "--yes"
    )
    assert code == 0, error
    assert f"{HOST}/{group.topic}/$default (sdk)" in text
    assert group.committed() == {0: 5, 1: 1, 2: RECORDS}
    assert len(store.list_checkpoints(HOST, group.topic, "$default")) == 3
    code, text, _ = group.run("offsets", "diff", group.topic, "--from", name)
    assert "all that is there agrees" in text


def test_a_wrong_key_of_a_container_is_one_message(
    group: Group, container: tuple[str, Any], azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong and the next step, no traceback and no key; nothing is moved."""
    key = "c2VjcmV0LWtleQ=="
    parts = azurite.connection_string().split(";")
    wrong = [f"AccountKey={key}" if part.startswith("AccountKey=") else part for part in parts]
    monkeypatch.setenv("EHKAFKA_MIRROR_CONNECTION_STRING", ";".join(wrong))
    code, _text, error = group.run(
        "offsets", "import", group.topic, "--from", container[0], "--yes", "--watch-for", "0"
    )
    assert code == 3
    assert "correct the key" in " ".join(error.split())
    assert "Traceback" not in error
    assert key not in error
    assert group.committed() == {}


def test_consumers_of_the_sdk_that_still_run_are_reported(group: Group, container: tuple[str, Any]) -> None:
    """Their ownership is a minute old at most; the preview says which partitions."""
    name, store = container
    store.update_checkpoint(checkpoint(group.topic, 1, 4))
    keys = ("fully_qualified_namespace", "eventhub_name", "consumer_group", "partition_id")
    mine = {key: value for key, value in checkpoint(group.topic, 1, 0).items() if key in keys}
    store.claim_ownership([{**mine, "owner_id": "another"}])
    code, text, error = group.run("offsets", "import", group.topic, "--from", name)
    assert code == 0
    assert "still own partition 1 " in " ".join(error.split())
    assert "Nothing was moved" in text


@pytest.mark.parametrize("how", ["described", "by the commit alone"])
def test_a_live_group_is_refused(group: Group, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its members where the broker tells them, else by the broker's answer to the commit."""
    if how != "described":
        monkeypatch.setattr("ehkafka.offsets.moving.members_of", lambda *_arguments: None)
    group.reset("--to", "2")
    quick = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": group.bootstrap, "group.id": group.name, **quick})
    try:
        consumer.subscribe([group.topic])
        while not consumer.assignment():
            consumer.poll(0.05)
        code, _text, error = group.reset("--to", "earliest")
        owners = group.run("owners", group.topic, "--json")[1]
    finally:
        consumer.close()
    assert code == 5
    assert ("1 member: rdkafka" if how == "described" else "UNKNOWN_MEMBER_ID") in error
    assert f"topic {group.topic}, group {group.name}" in error
    assert group.committed() == {0: 2, 1: 2, 2: 2}
    rows = orjson.loads(owners)["partitions"]
    assert [row["state"] for row in rows] == (["owned"] * 3)
    # No owner is left: the same goes through.
    assert group.reset("--to", "earliest")[0] == 0


def test_two_members_on_one_host_are_two_owners(group: Group) -> None:
    """They share the client's id and the host; the coordinator gives each member an id of its own."""
    quick = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "client.id": "app"}
    where = {"bootstrap.servers": group.bootstrap, "group.id": group.name, **quick}
    members = [Consumer(where) for _ in range(2)]
    try:
        for member in members:
            member.subscribe([group.topic])
        wait_until(
            lambda: all(member.assignment() for member in members),
            timeout_s=60.0,
            meanwhile=lambda: [member.poll(0.05) for member in members],
        )
        rows = orjson.loads(group.run("owners", group.topic, "--json")[1])["partitions"]
        text = group.run("owners", group.topic)[1]
        ids = {member.memberid() for member in members}
    finally:
        for member in members:
            member.close()
    assert {row["member_id"] for row in rows} == ids
    assert {row["client_id"] for row in rows} == {"app"}
    assert len({row["owner"] for row in rows}) == 2
    assert "2 owners, 3 partitions" in text


def test_a_reset_to_a_time_goes_by_the_records_timestamps(group: Group) -> None:
    """A time ago, a moment, and one behind the last record."""
    half = RECORDS // 2
    assert group.reset("--to", "-10m")[0] == 0
    assert group.committed() == {0: half, 1: half, 2: half}
    moment = datetime.fromtimestamp(time.time() - 2 * 3600, UTC).isoformat()
    assert group.reset("--to", f"0={moment}", "--to", "1=2100-01-01T00:00:00Z")[0] == 0
    assert group.committed() == {0: 0, 1: RECORDS, 2: half}
