"""The committer against a consumer that answers as scripted: metadata costs no commit, listeners hear."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import EngineError
from ehkafka.progress.commit_transports import OutsideCommits
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.metadata import LogFacts
from ehkafka.progress.saving import ProgressSaver
from ehkafka.records import TopicPartition
from tests.kit.events import Events

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOO_LARGE = KafkaError.OFFSET_METADATA_TOO_LARGE


class Broker:
    """Stands in for the consumer: refuses metadata that is longer than it takes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.requests: list[list[tuple[int, int, str | None]]] = []

    def commit(self, offsets: list[KafkaPartition], *, asynchronous: bool) -> Any:
        """Answer a synchronous commit as confluent-kafka does; remember an asynchronous one."""
        self.requests.append([(p.partition, p.offset, p.metadata) for p in offsets])
        if asynchronous:
            return None
        answers = self.answers(offsets)
        if all(answer.error is not None for answer in answers):
            raise KafkaException(answers[0].error)
        return answers

    def answers(self, offsets: list[KafkaPartition]) -> list[Any]:
        """Return what a request with these offsets is answered with."""
        return [_Answered(p, self._error(p)) for p in offsets]

    def _error(self, offset: KafkaPartition) -> KafkaError | None:
        return KafkaError(TOO_LARGE) if len(offset.metadata or "") > self.bytes_max else None


class _Answered:
    def __init__(self, offset: KafkaPartition, error: KafkaError | None) -> None:
        self.topic, self.partition, self.error = offset.topic, offset.partition, error


class Bench:
    """A committer with all that it tells."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ledger = CommitLedger(CommitPacing(60.0))
        self.events = Events()
        self.fatal: list[Any] = []
        self.saver = ProgressSaver(4095)
        self.committer = Committer(
            self.ledger,
            clock=lambda: self.now_s,
            emit=self.events.append,
            fatal=self.fatal.append,
            saver=self.saver,
        )
        for partition in (P0, P1):
            self.ledger.assigned(partition, 1, None)


@pytest.fixture
def bench() -> Bench:
    """Return a committer of two partitions."""
    return Bench()


POSITIONS = {P0: Position(1, 10, None, "much too long"), P1: Position(1, 20, None, "short")}


@pytest.mark.parametrize("way", ["in a revoke", "at a stop"])
def test_a_synchronous_commit_goes_again_at_once_without_metadata(bench: Bench, way: str) -> None:
    """Of two partitions one is refused for its metadata: it alone goes again, without, before the end."""
    broker = Broker(5)
    if way == "in a revoke":
        bench.committer.commit_now(broker, POSITIONS)  # type: ignore[arg-type]
    else:
        bench.committer.commit_now(broker, POSITIONS, 5.0)  # type: ignore[arg-type]
    assert broker.requests == [[(0, 10, "much too long"), (1, 20, "short")], [(0, 10, None)]]
    assert bench.ledger.dirty(POSITIONS) == {}
    assert bench.saver.bytes_max < len("much too long")
    assert bench.committer.problem is None


def test_a_broker_that_refuses_no_metadata_for_its_length_is_not_asked_for_ever(bench: Bench) -> None:
    """The refusal of a commit without metadata is a failed commit like any other."""
    broker = Broker(-1)
    bench.committer.commit_now(broker, POSITIONS)  # type: ignore[arg-type]
    assert len(broker.requests) == 2
    assert bench.committer.problem is not None
    bench.committer.send(broker, POSITIONS, 0)  # type: ignore[arg-type]
    bench.committer.on_commit(KafkaError(TOO_LARGE), [])
    assert not bench.ledger.due(0.5, 0)


def test_an_asynchronous_one_is_due_again_at_once(bench: Bench) -> None:
    """The interval of a minute does not keep the position from the broker."""
    broker = Broker(5)
    bench.committer.send(broker, POSITIONS, 0)  # type: ignore[arg-type]
    sent = [KafkaPartition("t", 0, 10, metadata="much too long"), KafkaPartition("t", 1, 20)]
    bench.committer.on_commit(None, broker.answers(sent))
    assert bench.ledger.due(0.0, 0)
    bench.committer.send(broker, POSITIONS, 0)  # type: ignore[arg-type]
    assert broker.requests[1] == [(0, 10, None)]


def test_a_failure_ends_though_the_broker_has_stored_the_commit_whose_answer_was_lost(bench: Bench) -> None:
    """The partition comes back with that commit, and nothing changes: an unchanged position is the proof."""
    broker: Any = Broker(4095)
    bench.committer.send(broker, {P0: Position(1, 10)}, 10)
    bench.committer.on_commit(KafkaError(KafkaError._TIMED_OUT), [KafkaPartition("t", 0, 10)])
    assert bench.committer.problem is not None
    bench.ledger.ended(P0)
    bench.ledger.assigned(P0, 2, Position(2, 10))
    bench.now_s = 61.0
    assert bench.ledger.due(bench.now_s, 10, is_at_rest=True)
    bench.committer.send(broker, {P0: Position(2, 10)}, 10)
    bench.committer.on_commit(None, [KafkaPartition("t", 0, 10)])
    assert (len(broker.requests), bench.committer.problem) == (2, None)


def test_a_listener_hears_of_what_was_stored_alone(bench: Bench) -> None:
    """By partition: the epoch and the progress, ranges and witness included; not what was refused."""
    noted: list[Any] = []
    bench.committer.listen(noted.append)
    assert bench.saver.is_mirrored
    broker = Broker(5)
    finished = ((22, 30), (31, 40))
    facts = LogFacts(witness=(19, 1_700_000_000_000))
    positions = {**POSITIONS, P1: Position(3, 20, 7, None, finished, 8, facts)}
    bench.ledger.assigned(P1, 3, None)
    bench.committer.send(broker, positions, 0)  # type: ignore[arg-type]
    sent = [KafkaPartition("t", 0, 10, metadata="much too long"), KafkaPartition("t", 1, 20)]
    bench.committer.on_commit(None, broker.answers(sent))
    assert noted == [{P1: positions[P1]}]


def test_a_listener_that_fails_ends_the_app_and_not_the_callback(bench: Bench) -> None:
    """An exception that left the callback would make librdkafka drop a batch."""

    def fail(_acknowledged: object) -> None:
        raise ValueError("no luck")

    bench.committer.listen(fail)
    bench.committer.send(Broker(5), POSITIONS, 0)  # type: ignore[arg-type]
    bench.committer.on_commit(None, [])
    (failure,) = bench.fatal
    assert isinstance(failure, EngineError)
    assert "no luck" in str(failure)


class Outside:
    """A consumer outside of the group, whose broker answers a commit when a test lets it."""

    def __init__(self) -> None:
        self.commits = OutsideCommits()
        self.asked: list[list[KafkaPartition]] = []
        # The errors of the answers that the next poll brings, oldest commit first.
        self.due: list[KafkaError | None] = []

    def commit(self, offsets: list[KafkaPartition], *, asynchronous: bool) -> None:
        """Take a commit."""
        assert asynchronous
        self.asked.append(offsets)

    def consume(self, _count: int, _timeout_s: float) -> None:
        """Let the answers through."""
        while self.due:
            self.commits.on_commit(self.due.pop(0), self.asked.pop(0))


def test_from_outside_of_the_group_an_answer_is_of_the_commit_that_it_names() -> None:
    """One that is too late means nothing for the next commit."""
    outside: Any = Outside()
    commits, late = outside.commits, KafkaError(KafkaError._TIMED_OUT)
    assert commits.ready(outside, {P0: Position(1, 10)})(0.01) is None
    outside.due = [late, None]
    error, partitions = commits.ready(outside, {P0: Position(1, 11)})(5.0)
    assert (error, [one.offset for one in partitions]) == (None, [11])
    assert [error for error, _ in commits.answers()] == [late]
    assert commits.answers() == []
