"""Whether a commit whose answer was lost was made, and which answers of the coordinator are believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.progress.commit_transports import as_offset
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.transactions import group_commits
from ehkafka.transactions.group_commits import OLD_S, GroupCommits
from tests.transactions.loop_bench import Bench, position

if TYPE_CHECKING:
    from collections.abc import Sequence

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """Answers what a test has put down for each question; the last answer stays."""

    def __init__(self, *answers: dict[TopicPartition, Position]) -> None:
        self.now_s = 0.0
        self._answers = [*answers]
        self.commits = GroupCommits(self._read, lambda: self.now_s)
        self.commits.epochs = {P0: 1, P1: 1}

    def _read(self, partitions: Sequence[KafkaPartition]) -> list[KafkaPartition]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            as_offset(one, answer[one]) for one in (TopicPartition(p.topic, p.partition) for p in partitions)
        ]

    def is_old(self, next_offset: int | None, metadata: str = "") -> bool:
        """Tell whether an answer about the first partition is taken for an old one."""
        commit = None if next_offset is None else KafkaPartition("t", 0, next_offset, metadata)
        return self.commits.is_old(P0, commit)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commits, "CONFIRM_S", 0.0)


def test_a_part_is_not_the_whole() -> None:
    """Ask for a commit of which the group has one partition alone, by the commit before."""
    coordinator = Coordinator({P0: Position(1, 5), P1: Position(1, 5)})
    assert not coordinator.commits.were_made({P0: Position(1, 5), P1: Position(1, 6)})
    assert coordinator.commits.were_made({P0: Position(1, 5), P1: Position(1, 5)})


def test_a_commit_that_the_first_answer_lacks_is_asked_for_again() -> None:
    """A coordinator that was cut off answers first, and its successor second."""
    coordinator = Coordinator({P0: Position(1, 4)}, {P0: Position(1, 5)})
    assert coordinator.commits.were_made({P0: Position(1, 5)})


def test_where_a_partition_was_lost_meanwhile_its_next_epoch_knows_the_commit() -> None:
    """The commit decides about outputs of this epoch alone, but no later answer may be older."""
    coordinator = Coordinator({P0: Position(1, 5)})
    coordinator.commits.epochs = {P0: 2}
    assert not coordinator.commits.were_made({P0: Position(1, 5)})
    assert coordinator.is_old(4)
    assert not coordinator.is_old(5)


def test_an_older_commit_than_one_that_was_made_is_not_believed_for_a_while() -> None:
    """A group may be reset by hand: in the end the answer is believed."""
    coordinator = Coordinator({})
    assert not coordinator.is_old(3)
    coordinator.commits.note({P0: Position(1, 9)})
    assert coordinator.is_old(3)
    assert coordinator.is_old(None)
    assert not coordinator.is_old(9)
    assert coordinator.is_old(3)
    coordinator.now_s += OLD_S
    assert not coordinator.is_old(3)
    assert not coordinator.is_old(3)


def test_an_older_commit_than_one_that_was_read_is_not_believed() -> None:
    """An epoch began at another member's commit, and made none."""
    coordinator = Coordinator({})
    assert not coordinator.is_old(7)
    assert coordinator.is_old(6)


def test_a_commit_with_fewer_finished_records_above_its_offset_is_older() -> None:
    """The offset alone does not tell."""
    bench = Bench()
    less, more = (position(bench.epoch, 3, ranges, 4000) for ranges in ([(5, 6)], [(5, 6), (8, 9)]))
    coordinator = Coordinator({})
    coordinator.commits.note({P0: more})
    assert coordinator.is_old(3, less.metadata or "")
    assert not coordinator.is_old(3, more.metadata or "")
    assert not coordinator.is_old(9)


def test_partitions_of_a_transaction_that_is_not_over_are_undecided() -> None:
    """They are not any more when its result is there, which is noted."""
    bench = Bench()
    bench.add(0)
    request: Any = bench.request(1)
    assert bench.loop.undecided() == set()
    bench.loop.submit(request)
    assert bench.loop.undecided() == {bench.epoch.partition}
    bench.loop._carry_out(request)
    assert bench.noted == request.positions
