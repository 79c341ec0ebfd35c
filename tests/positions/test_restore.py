"""What is restored at an assignment: said by the commit, or by another place that knows that very commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.positions.finder import Begin
from ehkafka.positions.mirror_start import MirrorRanges
from ehkafka.positions.restore import GroupCommit, Restore, stored
from ehkafka.progress.metadata import MOVED, ON_SPARK, LogFacts, encode
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.progress.ranges import Ranges

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
FEW = ((11, 13),)
MORE = ((11, 13), (15, 40))


class Logs:
    """Stands in for the consumer: says where logs begin and end."""

    def __init__(self, end: int = 100, error: KafkaError | None = None, refusals: int = 1000) -> None:
        self.end = end
        self.error = error
        # After so many it answers.
        self.refusals = refusals
        self.asked = 0

    def offsets_for_times(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Answer for the log's beginning or end."""
        self.asked += 1
        if self.error is not None and self.asked <= self.refusals:
            raise KafkaException(self.error)
        ends = {OFFSET_BEGINNING: 0}
        return [KafkaPartition(p.topic, p.partition, ends.get(p.offset, self.end)) for p in asked]


def copied(next_offset: int, finished: Ranges, leader_epoch: int | None = None) -> Checkpoint:
    """Return what a copy says."""
    return Checkpoint(next_offset=next_offset, finished=finished, finished_leader_epoch=leader_epoch)


class Source(MirrorRanges):
    """Another place that knows progress."""

    name = "a test's copy"

    def __init__(self, **known: Checkpoint) -> None:
        self.known = {TopicPartition("t", int(name[1:])): progress for name, progress in known.items()}
        self.asked: list[dict[TopicPartition, GroupCommit]] = []

    def progress_at(
        self, commits: Mapping[TopicPartition, GroupCommit]
    ) -> Mapping[TopicPartition, Checkpoint]:
        """Return all it knows, whatever was asked."""
        self.asked.append(dict(commits))
        return self.known


def begin(partition: TopicPartition, finished: Any = (), bytes_max: int = 1000, *, text: str = "") -> Begin:
    """Return where a partition begins whose group committed 10, with what the commit says."""
    text = encode(10, LogFacts(), finished, 0, bytes_max).text or text
    return Begin(partition, 10, KafkaPartition(*partition, 10, metadata=text))


def find(restore: Restore, logs: Logs, *begins: Begin) -> Any:
    """Return what is restored."""
    found, waiting = restore.find(logs, begins)  # type: ignore[arg-type]
    assert not waiting
    return found


LONG = tuple((start, start + 1 + start % 7) for start in range(12, 90, 9))


def test_nothing_to_restore_asks_no_broker() -> None:
    """No commit, or one without metadata: the broker is not asked where logs end."""
    logs = Logs()
    assert find(Restore(), logs, Begin(P0, OFFSET_BEGINNING), begin(P1)) == {}
    assert logs.asked == 0


def test_a_source_is_asked_for_what_the_commits_do_not_say() -> None:
    """Not for a partition without a commit; first where the commit says that there is more.

    Its time is bounded. Where a commit has no metadata, only a copy of it can tell who made it.
    """
    source = Source()
    restore = Restore(source=source)
    find(restore, Logs(), begin(P0, FEW), begin(P1), Begin(TopicPartition("t", 2), 5))
    find(restore, Logs(), begin(P0), begin(P1, LONG, 25))
    assert [list(asked.items()) for asked in source.asked] == [
        [(P1, GroupCommit(10, None))],
        [(P1, GroupCommit(10, is_ours=True)), (P0, GroupCommit(10, None))],
    ]


def test_a_source_that_knows_more_than_fitted_into_the_commit_is_believed() -> None:
    """The mirror saves what the limit dropped; where it knows less, the commit is believed."""
    cut = begin(P0, LONG, 25)
    found = find(Restore(source=Source(p0=copied(10, LONG, 4))), Logs(), cut)[P0]
    assert (found.finished, found.source, found.leader_epoch, found.text) == (LONG, "a test's copy", 4, None)
    found = find(Restore(source=Source(p0=copied(10, LONG[:1]))), Logs(), cut)[P0]
    assert found.source == "the group's commit"


def test_what_either_place_knows_is_restored() -> None:
    """A record that was skipped from outside is in the commit alone, though the mirror knows more."""
    text = encode(10, LogFacts(), ((20, 21),), 7, 1000, is_complete=False).text or ""
    found = find(Restore(source=Source(p0=copied(10, FEW, 4))), Logs(), begin(P0, text=text))
    assert (found[P0].finished, found[P0].leader_epoch) == (((11, 13), (20, 21)), 7)
    assert found[P0].source == "the group's commit and a test's copy"
    assert found[P0].text is None, "the next commit says all of it"


@pytest.mark.parametrize("next_offset", [9, 11])
def test_a_source_of_another_commit_counts_for_nothing(next_offset: int) -> None:
    """Older or newer than the group's commit: the commit decides."""
    source = Source(p0=copied(next_offset, MORE), p1=copied(10, MORE))
    assert find(Restore(source=source), Logs(), begin(P0)) == {}


def test_what_is_stored_is_what_was_understood() -> None:
    """Foreign text is as good as none, our own is known with its ranges: neither is dirty as it is."""
    ours = begin(P0, FEW)
    restored = find(Restore(), Logs(), ours)[P0]
    position = stored(ours, 3, restored)
    assert position is not None
    assert (position.epoch, position.next_offset, position.finished) == (3, 10, FEW)
    assert position.metadata == encode(10, LogFacts(), FEW, 0, 1000).text
    foreign = stored(begin(P0, text="theirs"), 3, None)
    assert foreign is not None
    assert foreign.metadata is None
    assert stored(Begin(P0, 10), 3, None) is None


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        # An operator has moved the group to the offset of an old copy: all from there on is handled again.
        (MOVED, False),
        (f"{ON_SPARK}-.-.host-1", False),
        ("another tool's", True),
        ("ehk9.abc", True),
        ("ehk2.damaged", True),
        (encode(11, LogFacts(), ((12, 13),), 0, 99).text, True),
    ],
    ids=["moved", "Spark's", "a tool's", "a newer version's", "broken", "of another offset"],
)
def test_a_commit_that_is_not_ours_restores_nothing_from_anywhere(text: str, *, is_reported: bool) -> None:
    """Once each it is reported. A source hears of it all the same: it may hold ranges that are to go."""
    reported: list[Any] = []
    source = Source(p0=copied(10, MORE))
    restore = Restore(reported.append, source=source)
    for _ in range(3):
        assert find(restore, Logs(), begin(P0, text=text)) == {}
    assert len(reported) == is_reported
    assert source.asked == [{P0: GroupCommit(10, is_ours=False)}] * 3
    find(restore, Logs(), begin(P0, text="theirs, too"))
    assert len(reported) == is_reported + 1
    assert P0 in find(restore, Logs(), begin(P0))


def test_a_source_that_the_group_begins_at_is_its_own_proof() -> None:
    """Without a commit the copy decides where to begin, and what is finished above."""
    source = Source(p0=copied(10, MORE))
    found = find(Restore(source=source), Logs(), Begin(P0, 10, is_mirrored=True))
    assert found[P0].finished == MORE
    assert source.asked == [{P0: GroupCommit(10, is_ours=True)}]
