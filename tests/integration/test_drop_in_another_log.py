"""Row 23 for the drop-in: a topic that is deleted and made again, its new log longer than the old."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

import ehkafka
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.progress.metadata import facts_of
from tests.integration.logs import commit_of, fill, make_anew, put_commit
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker

OLD, NEW = 20, 80
LIMIT_S = 20.0
IN_ANOTHER_LOG = "has a new log"


class Stand:
    """A topic of one partition, and drop-ins that read it."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        self.opened: list[ehkafka.Consumer] = []

    def open(
        self, *, bootstrap: str | None = None, choices: dict[str, Any] | None = None, **more: Any
    ) -> Any:
        """Open a consumer, which commits when it is asked to."""
        config = {
            "bootstrap.servers": bootstrap or self.stage.broker.bootstrap,
            "group.id": self.stage.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
        consumer = ehkafka.Consumer(config | more, **(choices or {}))
        self.opened.append(consumer)
        consumer.subscribe([self.stage.topic])
        return consumer


@pytest.fixture
def stand(stage_on: Callable[..., Any], kafka: Any) -> Iterator[Stand]:
    """Return a stand on the shared broker."""
    one = Stand(stage_on(kafka, 1))
    yield one
    for consumer in one.opened:
        consumer.close()


@pytest.fixture
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drop-ins ask each second whose log they read."""
    monkeypatch.setattr("ehkafka.consumer.log_guard.refresh_s", lambda _properties: 1.0)


def read(consumer: Any, done: Callable[[list[bytes]], bool], what: str) -> list[bytes]:
    """Poll, and commit each record, until that is so."""
    values: list[bytes] = []

    def take() -> None:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
            consumer.commit(message)

    reported = lambda: f"FACT: {what}; {len(values)} read, the last {values[-1:]}"  # noqa: E731
    wait_until(lambda: done(values), reported, LIMIT_S, meanwhile=take)
    return values


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines about logs that are others."""
    return [record.getMessage() for record in caplog.records if IN_ANOTHER_LOG in record.getMessage()]


def work_off_old(stand: Stand, consumer: Any, store: MemoryStore | None = None) -> Any:
    """Read and commit an old log until its commit, or the mirror, names the topic; return the commit."""
    fill(stand.stage, "old", OLD)
    read(consumer, lambda values: len(values) == OLD, "the old log")

    def named() -> Any:
        fill(stand.stage, "old", 1)
        read(consumer, lambda values: len(values) == 1, "the old log")
        consumer.poll(0.6)
        at = commit_of(stand.stage)
        facts = facts_of(at.offset, at.metadata)
        if store and (blob := store.read(f"ns/{stand.stage.topic}/{stand.stage.group}/checkpoint/0")):
            facts = getattr(read_checkpoint(blob.body), "facts", facts)
        return at if facts.topic_id is not None else None

    return wait_until(named, lambda: f"FACT: the id is not in {commit_of(stand.stage).metadata!r}", LIMIT_S)


def has_all(values: list[bytes]) -> bool:
    """Tell whether all of the new log is there, its end last."""
    return values[-1:] == [b"new-79"] and len({value for value in values if value.startswith(b"new-")}) == NEW


@pytest.mark.usefixtures("asks_often")
def test_a_running_one_tells_and_goes_on(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    """Without a guard the contract is confluent-kafka's; the log says what is skipped, once."""
    consumer = stand.open()
    old = work_off_old(stand, consumer).offset
    make_anew(stand.stage, NEW)
    read(consumer, lambda values: values[-1:] == [b"new-79"] and bool(reported(caplog)), "it never reported")
    consumer.poll(1.5)
    [line] = reported(caplog)
    assert "had the id" in line or "the record at" in line
    assert "(as confluent-kafka does; seek()" in line
    assert old < NEW
    assert {one.levelno for one in caplog.records if IN_ANOTHER_LOG in one.getMessage()} == {logging.ERROR}
    assert consumer.committed([KafkaPartition(stand.stage.topic, 0)])[0].metadata in {None, ""}


@pytest.mark.usefixtures("asks_often")
def test_with_the_guard_a_running_one_begins_anew(stand: Stand) -> None:
    """Its marks of the old log count no more, and the new one is read from its beginning."""
    consumer = stand.open(choices={"contiguous": True})
    work_off_old(stand, consumer)
    make_anew(stand.stage, NEW)
    read(consumer, has_all, "it went on in the middle of another log")
    consumer.commit(asynchronous=False)
    assert commit_of(stand.stage).offset == NEW


@pytest.mark.parametrize(
    ("guard", "reset"), [("contiguous", "earliest"), ("contiguous", "error"), ("mirror", "earliest")]
)
def test_with_the_guard_a_commit_of_the_old_log_does_not_decide(stand: Stand, guard: str, reset: str) -> None:
    """A start at a surviving commit: `auto.offset.reset` decides, as where there is none.

    A commit without metadata is recognised by the topic's id in the mirror.
    """
    store = MemoryStore() if guard == "mirror" else None
    choices = {guard: StoreMirror(store=store, interval_s=0.1, namespace="ns") if store else True}
    first = stand.open(choices=choices)
    if store:
        # As if the broker had found the metadata too long.
        first._internals.log_guard.facts.refused()
    at = work_off_old(stand, first, store)
    first.close()
    make_anew(stand.stage, NEW)
    put_commit(stand.stage, at.offset, at.metadata)
    second = stand.open(choices=choices, **{"auto.offset.reset": reset})
    if reset == "earliest":
        read(second, has_all, "the old commit decided")
        return

    def refused() -> Any:
        message = second.poll(0.1)
        if message is not None and message.error() is None:
            second.commit(message)  # what is not marked would hold the partition
        return message and message.error()

    assert wait_until(refused, "FACT: the old commit decided", LIMIT_S).name() == "_AUTO_OFFSET_RESET"


def test_an_app_takes_a_drop_ins_word(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    """A drop-in without a guard begins at the old commit and says so; an app refuses it."""
    first = stand.open()
    at = work_off_old(stand, first)
    first.close()
    make_anew(stand.stage, NEW)
    put_commit(stand.stage, at.offset, at.metadata)
    app = stand.stage.app()
    app.start()
    assert app.wait(20.0)
    with pytest.raises(ehkafka.errors.OffsetGapError, match="had the id"):
        app.stop()
    second = stand.open()
    wait_until(
        lambda: reported(caplog),
        "FACT: it went on in another log without a word",
        LIMIT_S,
        meanwhile=lambda: second.poll(0.1),
    )
    assert f"Position {at.offset} " in reported(caplog)[0]
    second.close()
    wait_until(
        lambda: not [one.name for one in threading.enumerate() if one.name == "ehkafka-log"],
        "FACT: a thread still runs",
        timeout_s=8.0,
    )
