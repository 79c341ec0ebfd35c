"""What is restored at an assignment: said by the commit, or by another place that knows that very commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.errors import EndpointError
from ehkafka.events import ProgressIgnored
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


def test_nothing_to_restore_asks_nobody() -> None:
    """No commit, or one without metadata: the broker is not asked where logs end."""
    logs = Logs()
    assert find(Restore(), logs, Begin(P0, OFFSET_BEGINNING), begin(P1)) == {}
    assert logs.asked == 0


def test_a_source_is_asked_for_what_the_commits_do_not_say() -> None:
    """Not for a partition without a commit, nor for one whose commit says everything."""
    source = Source()
    restore = Restore(sources=[source])
    find(restore, Logs(), begin(P0, FEW), begin(P1), Begin(TopicPartition("t", 2), 5))
    # It has no metadata, so only a copy of it can tell who made it.
    assert source.asked == [{P1: GroupCommit(10, None)}]


def test_a_source_is_asked_first_where_the_commit_says_that_there_is_more() -> None:
    """Its time is bounded, and a commit without ranges seldom has left any out."""
    source = Source()
    long = tuple((start, start + 1 + start % 7) for start in range(12, 90, 9))
    find(Restore(sources=[source]), Logs(), begin(P0), begin(P1, long, 25))
    assert [list(asked) for asked in source.asked] == [[P1, P0]]


def test_a_source_that_knows_more_than_fitted_into_the_commit_is_believed() -> None:
    """The mirror saves what the limit dropped; where it knows less, the commit is believed."""
    long = tuple((start, start + 1 + start % 7) for start in range(12, 90, 9))
    fuller = Source(p0=copied(10, long, 4))
    cut = begin(P0, long, 25)
    found = find(Restore(sources=[fuller]), Logs(), cut)[P0]
    assert (found.finished, found.source, found.leader_epoch, found.text) == (long, "a test's copy", 4, None)
    poorer = Source(p0=copied(10, long[:1]))
    found = find(Restore(sources=[poorer]), Logs(), cut)[P0]
    assert found.source == "the group's commit"
    assert poorer.asked == [{P0: GroupCommit(10, is_ours=True)}]


def test_what_either_place_knows_is_restored() -> None:
    """A record that was skipped from outside is in the commit alone, though the mirror knows more."""
    text = encode(10, LogFacts(), ((20, 21),), 7, 1000, is_complete=False).text or ""
    found = find(Restore(sources=[Source(p0=copied(10, FEW, 4))]), Logs(), begin(P0, text=text))
    assert (found[P0].finished, found[P0].leader_epoch) == (((11, 13), (20, 21)), 7)
    assert found[P0].source == "the group's commit and a test's copy"
    assert found[P0].text is None, "the next commit says all of it"


@pytest.mark.parametrize("next_offset", [9, 11])
def test_a_source_of_another_commit_counts_for_nothing(next_offset: int) -> None:
    """Older or newer than the group's commit: the commit decides."""
    source = Source(p0=copied(next_offset, MORE), p1=copied(10, MORE))
    assert find(Restore(sources=[source]), Logs(), begin(P0)) == {}


def test_ranges_beyond_the_log_are_reported_and_dropped() -> None:
    """Another log of that name; the other partition keeps its own."""
    reported: list[Any] = []
    restore = Restore(reported.append)
    found = find(restore, Logs(end=20), begin(P0, MORE), begin(P1, FEW))
    assert list(found) == [P1]
    (ignored,) = reported
    assert isinstance(ignored, ProgressIgnored)
    assert ignored.partition == P0


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.FENCED_LEADER_EPOCH])
def test_what_has_something_to_restore_waits_until_the_end_of_its_log_is_known(code: int) -> None:
    """To ignore what was finished would repeat it; a partition without ranges begins."""
    logs: Any = Logs(error=KafkaError(code), refusals=1)
    restore, begins = Restore(), (begin(P0, FEW), begin(P1))
    found, waiting = restore.find(logs, begins)
    assert (found, list(waiting)) == ({}, [P0])
    found, waiting = restore.find(logs, begins)
    assert ([one.finished for one in found.values()], waiting) == ([FEW], {})


def test_a_broker_that_refuses_access_ends_the_app() -> None:
    """No waiting cures that."""
    logs = Logs(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(EndpointError, match="refuses access"):
        find(Restore(), logs, begin(P0, FEW))


def test_the_same_metadata_is_reported_once() -> None:
    """A partition that comes again and again with the same foreign text is one warning."""
    reported: list[Any] = []
    restore = Restore(reported.append)
    for text in ("theirs", "theirs", "theirs, too"):
        find(restore, Logs(), begin(P0, text=text))
    assert len(reported) == 2


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


def test_a_group_that_was_moved_restores_nothing_from_anywhere() -> None:
    """An operator moved it to the very offset of an old copy: all from there on is handled again."""
    reported: list[Any] = []
    source = Source(p0=copied(10, MORE))
    restore = Restore(reported.append, sources=[source])
    assert find(restore, Logs(), begin(P0, text=MOVED)) == {}
    assert find(restore, Logs(), begin(P0, text=f"{ON_SPARK}-.-.host-1")) == {}
    assert reported == []
    # A source hears of it all the same: it may hold ranges that are to go.
    assert source.asked == [{P0: GroupCommit(10, is_ours=False)}] * 2
    assert P0 in find(restore, Logs(), begin(P0))


@pytest.mark.parametrize(
    "text", ["another tool's", "ehk9.abc", "ehk2.damaged", encode(11, LogFacts(), ((12, 13),), 0, 99).text]
)
def test_a_commit_that_is_not_ours_restores_nothing_from_anywhere(text: str) -> None:
    """A tool's words, a newer version's, broken ones, ours of another offset: somebody else stands there."""
    source = Source(p0=copied(10, MORE))
    assert find(Restore(sources=[source]), Logs(), begin(P0, text=text)) == {}
    assert source.asked == [{P0: GroupCommit(10, is_ours=False)}]


def test_a_source_that_the_group_begins_at_is_its_own_proof() -> None:
    """Without a commit the copy decides where to begin, and what is finished above."""
    source = Source(p0=copied(10, MORE))
    found = find(Restore(sources=[source]), Logs(), Begin(P0, 10, is_mirrored=True))
    assert found[P0].finished == MORE
    assert source.asked == [{P0: GroupCommit(10, is_ours=True)}]
