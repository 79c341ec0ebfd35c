"""What the committer gives to transactions, and what it hears of them."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.lanes.epoch import Epoch
from ehkafka.progress.commit_transports import CommitError, classify
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, Position
from ehkafka.progress.pacing import commit_pacing
from ehkafka.progress.saving import Sample
from ehkafka.records import TopicPartition
from ehkafka.settings import Settings
from ehkafka.transactions import committing
from ehkafka.transactions.committing import TransactionalCommits, metadata_of_no_member
from ehkafka.transactions.saving import TransactionSaver, ranges_above

if TYPE_CHECKING:
    from ehkafka.transactions.committing import SendOffsets

MEMBER = b"CGMDv2:\1\0\0\0g\0member\0\1"
PLACES = [TopicPartition("in", number) for number in range(4)]


def positions_of(next_offset: int = 1) -> dict[TopicPartition, Position]:
    """Return a position of each partition."""
    return {place: Position(1, next_offset) for place in PLACES}


class Bench:
    """Commits over a loop that a test answers for."""

    def __init__(self, metadata: bytes = MEMBER, wait_s: float = 10.0) -> None:
        self.submitted: list[SendOffsets] = []
        self.known: dict[TopicPartition, Position] = {}
        loop: Any = SimpleNamespace(submit=self.submitted.append)
        self.commits = TransactionalCommits(loop, self.known.get, wait_s=wait_s)
        self.consumer: Any = SimpleNamespace(consumer_group_metadata=lambda: metadata)

    def begin(self, positions: dict[TopicPartition, Position]) -> SendOffsets:
        """Start one of what may go next."""
        self.commits.begin(self.consumer, self.commits.chosen(positions))
        return self.submitted[-1]

    def end(self, error: KafkaError | None = None, took_s: float = 0.1) -> Any:
        """End the last one, and return what is heard of it."""
        request = self.submitted[-1]
        request.error, request.took_s = error, took_s
        request.done.set()
        return self.commits.answers()


@pytest.mark.parametrize("code", [KafkaError._FENCED, 47, 90])
def test_a_fenced_producer_is_no_fenced_member(code: int) -> None:
    """The broker fences the producer of a transaction that took too long: the committer tries again."""
    bench = Bench()
    bench.begin(positions_of())
    [(error, _)] = bench.end(KafkaError(code))
    assert classify(error) is CommitError.RETRY


def test_who_is_no_member_commits_nothing() -> None:
    """The broker would take it, whichever member has the partitions."""
    bench = Bench(metadata_of_no_member("g"))
    with pytest.raises(KafkaException, match="the group has removed this member"):
        bench.begin(positions_of())
    error, _ = bench.commits.ready(bench.consumer, positions_of())(None)
    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_MEMBER_ID
    assert bench.submitted == []


def test_what_the_group_has_already_is_not_asked_for() -> None:
    """It would be found whatever became of the transaction."""
    bench = Bench()
    bench.known[PLACES[0]] = Position(1, 1)
    assert list(bench.begin(positions_of()).changed) == PLACES[1:]


def test_a_smaller_transaction_has_a_position_that_the_group_lacks() -> None:
    """Those that the group has already take no turns: a stop has few."""
    bench = Bench()
    bench.begin({place: Position(1, 1) for place in PLACES[:2]})
    bench.end(KafkaError(KafkaError._TIMED_OUT), 9.0)
    bench.known |= {place: Position(1, 1) for place in PLACES[:3]}
    for _ in PLACES:
        assert list(bench.commits.chosen(positions_of())) == PLACES[3:]


def test_after_one_that_took_too_long_the_next_ones_are_smaller() -> None:
    """Each partition has its turn, and good ones grow again."""
    bench, late = Bench(), KafkaError(KafkaError._TIMED_OUT)
    assert list(bench.begin(positions_of()).positions) == PLACES
    bench.end(late, 9.0)
    assert list(bench.begin(positions_of()).positions) == PLACES[:2]
    bench.end(late, 9.0)
    turns = []
    for _ in PLACES:
        turns += list(bench.begin(positions_of()).positions)
        bench.end(late, 9.0)
    assert sorted(turns) == PLACES
    for count in (1, 2, 4):
        assert len(bench.begin(positions_of()).positions) == count
        bench.end()
    bench.begin(positions_of())
    bench.end(KafkaError(KafkaError._STATE), 0.1)  # for another reason
    assert len(bench.begin(positions_of()).positions) == len(PLACES)


def test_one_that_a_caller_waits_for_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is aborted, unless it is being committed."""
    monkeypatch.setattr(committing, "UNWANTED_S", 0.01)
    bench = Bench(wait_s=0.01)
    error, _ = bench.commits.ready(bench.consumer, positions_of())(None)
    assert error is not None
    assert error.code() == KafkaError._TIMED_OUT
    assert bench.submitted[0].is_unwanted


def test_before_last_positions_the_transaction_under_way_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is not over in time is aborted, unless it is being committed: then no position may follow."""
    bench = Bench(wait_s=0.01)
    request = bench.begin(positions_of())
    threading.Timer(0.02, request.done.set).start()
    assert bench.commits.settle(10.0) is request.is_unwanted is True
    committed = bench.begin(positions_of(2))
    monkeypatch.setattr(committing, "UNWANTED_S", 0.01)
    assert not bench.commits.settle(0.01)
    assert committed.is_unwanted


class Fragments:
    """An epoch whose finished records do not fit into the text of a commit."""

    def __init__(self) -> None:
        pacing = commit_pacing(Settings(group="g", start="earliest"), is_event_hubs=False)
        self.ledger = CommitLedger(pacing, unsays_nothing=True)
        self.epoch = Epoch(PLACES[0], 1, {})
        self.ledger.assigned(PLACES[0], 1, None)
        self.saver = TransactionSaver(70, None, lambda: 0.0, self.ledger.acknowledged)
        self.bench = Bench(wait_s=0.01)
        self.committer = Committer(
            self.ledger,
            clock=lambda: 0.0,
            emit=lambda _event: None,
            fatal=lambda error: pytest.fail(str(error)),
            saver=self.saver,
            commits=self.bench.commits,
        )

    def position(self, *ended: int) -> Position:
        """Return what would be committed once these offsets have ended, too."""
        return self.saver.position(Sample(self.epoch, 0, None, None, None, list(ended), None))

    def last_ranges(self) -> tuple[set[int], set[int]]:
        """Commit high records, and have lower ones end meanwhile; return what the commit and the last say."""
        first = self.position(*range(428, 435))
        self.committer.send(self.bench.consumer, {PLACES[0]: first}, 0)
        self.bench.submitted[-1].done.set()
        assert self.committer.settle(1.0)
        return _offsets(first), _offsets(self.position(*random.Random(1).sample(range(1, 400), 200)))


def test_a_last_position_says_all_that_the_transaction_before_it_said() -> None:
    """Red on three brokers: seven outputs were sent again by the next owner of their partition."""
    first, last = Fragments().last_ranges()
    assert first == set(range(428, 435))
    assert first < last


def test_mutant_the_last_position_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then its text has room for the lowest ranges only."""
    monkeypatch.setattr(Committer, "settle", lambda *_: True)
    first, last = Fragments().last_ranges()
    assert last
    assert not first <= last


def _offsets(position: Position) -> set[int]:
    return {offset for start, end in ranges_above(position, 0) for offset in range(start, end)}
