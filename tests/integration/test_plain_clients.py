from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.events import CommitFailed, ConnectionProblem
from ehkafka.records import TopicPartition
from tests.kit.checker.history import MemoryHistory
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


pytestmark = pytest.mark.broker

MEMBERS = 3
RATE = 1000.0
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 150}


@pytest.mark.parametrize("auto_commit", [False, True], ids=["manual-commit", "auto-commit"])
def test_members_replace_plain_clients_one_by_one_and_back(stage: Any, auto_commit: bool) -> None:
    """Ehkafka members replace plain clients one by one and leave again; no record is lost."""
    events = Events()
    load = stage.load(RATE)
    load.start()
    plain = [PlainMember(stage, auto_commit=auto_commit) for _ in range(MEMBERS)]
    for member in plain:
        member.start()
    wait_until(lambda: all(member.epochs for member in plain), "all plain members have partitions")
    apps = []
    for leaving in plain:
        apps.append(joined(stage, events))
        leaving.leave()
    handled_by_plain = sum(len(member.handled) for member in plain)
    wait_until(
        lambda: sum(len(app.snapshot().partitions) for app in apps) == 8, "the ehkafka members have it all"
    )
    followers = [PlainMember(stage, auto_commit=auto_commit) for _ in range(MEMBERS)]
    for app, follower in zip(apps, followers, strict=True):
        follower.start()
        wait_until(lambda follower=follower: follower.epochs, "the plain client has partitions")
        app.stop()
    load.stop()
    stage.wait_until_committed(load.ends)
    for member in followers:
        member.leave()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.duplicates <= verdict.in_flight_at_end, verdict.report()
    assert [error for member in plain + followers for error in member.errors] == []
    assert events.of(CommitFailed, ConnectionProblem) == []
    assert handled_by_plain > 0
    assert sum(app.snapshot().finished_records for app in apps) > 0
    for member in followers:
        assert member.first_offsets
        assert member.first_offsets.items() <= member.positions.items()


def joined(stage: Any, events: Events) -> Any:
    """Return an ehkafka member that has partitions."""
    app = stage.app(lambda _record: time.sleep(0.002), consumer=QUICK, commit_interval_s=0.5)
    app.add_hook(events)
    app.start()
    wait_until(lambda: app.snapshot().partitions, "the new member has partitions")
    return app


class PlainMember(threading.Thread):
    """What users have today: a poll loop around a Consumer, here with a history."""

    def __init__(self, stage: Any, *, auto_commit: bool) -> None:
        super().__init__(name="plain-member", daemon=True)
        self.errors: list[object] = []
        self.handled: list[int] = []
        self.epochs: dict[TopicPartition, int] = {}
        # By partition and epoch: where the group's commit was, and the offset that came first.
        self.positions: dict[tuple[TopicPartition, int], int] = {}
        self.first_offsets: dict[tuple[TopicPartition, int], int] = {}
        self._stage = stage
        self._auto_commit = auto_commit
        self._history = MemoryHistory()
        stage.memories.append(self._history)
        self._leaving = threading.Event()
        self._done: dict[TopicPartition, int] = {}

    def leave(self) -> None:
        """Close the consumer and wait for that."""
        self._leaving.set()
        self.join(20.0)
        assert not self.is_alive()

    def run(self) -> None:
        """Poll, handle, commit."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._stage.broker.bootstrap,
                "group.id": self._stage.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": self._auto_commit,
                "auto.commit.interval.ms": 500,
                "log_level": 0,
                "error_cb": self.errors.append,
                "on_commit": self._on_commit,
                **QUICK,
            }
        )
        consumer.subscribe(
            [self._stage.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        committed_s = time.monotonic()
        while not self._leaving.is_set():
            message = consumer.poll(0.02)
            if message is not None:
                self._handle(message)
            if time.monotonic() - committed_s > 0.5:
                self._commit(consumer)
                committed_s = time.monotonic()
        consumer.close()

    def _handle(self, message: Message) -> None:
        if message.error() is not None:
            self.errors.append(message.error())
            return
        number, offset = message.partition(), message.offset()
        assert number is not None
        assert offset is not None
        name = TopicPartition(self._stage.topic, number)
        epoch = self.epochs[name]
        self.first_offsets.setdefault((name, epoch), offset)
        self._history.received(name, epoch, [offset])
        self._history.started(name, epoch, offset, message.key(), 1)
        self._history.finished(name, epoch, offset, message.key(), 1, "finished")
        self.handled.append(offset)
        self._done[name] = offset + 1

    def _commit(self, consumer: Consumer) -> None:
        if self._auto_commit or not self._done:
            return
        self._history.commit_requested(self._done)
        offsets = [KafkaPartition(*name, offset) for name, offset in self._done.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        self._history.commit_acknowledged(self._done)
        self._done.clear()

    def _on_commit(self, error: KafkaError | None, partitions: list[KafkaPartition]) -> None:
        if error is not None:
            self.errors.append(error)
        elif self._auto_commit:
            stored = {TopicPartition(p.topic, p.partition): p.offset for p in partitions if p.offset >= 0}
            self._history.commit_acknowledged(stored)

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        for found in consumer.committed(partitions, timeout=10.0):
            name = TopicPartition(found.topic, found.partition)
            epoch = self.epochs[name] = self.epochs.get(name, 0) + 1
            self._history.assigned(name, epoch, str(found.offset) if found.offset >= 0 else "earliest")
            if found.offset >= 0:
                self.positions[name, epoch] = found.offset

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        self._commit(consumer)
        self._end(partitions, "revoked")

    def _on_lost(self, _consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        self.errors.append("lost")
        self._end(partitions, "lost")

    def _end(self, partitions: list[KafkaPartition], reason: str) -> None:
        for each in partitions:
            name = TopicPartition(each.topic, each.partition)
            self._history.revoked(name, self.epochs[name], reason)
        self._done.clear()
