"""Whose a group's commits are: tags, and what follows of what the broker returns."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import GroupInUseError
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.metadata import MOVED, CommitMetadata, LogFacts, decode
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group.ownership import Commit, GroupWatch, Tag

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OURS, BEFORE, THEIRS = Tag("host.example-1-aa", "c1"), Tag("before-1-cc"), Tag("other-2-bb")
STORED = {P0: Position(1, 10, metadata=OURS.text), P1: Position(1, 20, metadata=OURS.text)}
FACTS = LogFacts(8, bytes(range(16)), (7, 1_790_000_000_000), "june")


class Group:
    """A group with two partitions and the watch of a run that has committed `STORED`."""

    def __init__(self) -> None:
        self.commits = {P0: Commit(10, OURS.text), P1: Commit(20, OURS.text)}
        self._watch_of({P0: Commit(3, BEFORE.text)})
        self._ledger = CommitLedger(CommitPacing())
        for partition, position in STORED.items():
            self._ledger.assigned(partition, 1, position)
        self.is_up = True

    def _watch_of(self, found: dict[TopicPartition, Commit]) -> None:
        self.watch = GroupWatch(OURS, found, "The group 'g'", lambda _event: None)

    def committed(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return what the group has."""
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "slow"))
        found = [TopicPartition(one.topic, one.partition) for one in asked]
        return [KafkaPartition(*p, self.commits[p].offset, self.commits[p].metadata) for p in found]

    def check(self, wanted: dict[TopicPartition, Position] | None = None) -> Any:
        """Look."""
        return self.watch.check(self, self._ledger, wanted or STORED)  # type: ignore[arg-type]

    def begin(self, found: dict[TopicPartition, Commit]) -> Any:
        """Look whether a run may begin at 12 that has found this."""
        self._watch_of(found)
        return self.watch.check(self, CommitLedger(CommitPacing()), {P0: Position(1, 12)})  # type: ignore[arg-type]


@pytest.fixture
def group() -> Group:
    """Return one whose commits are ours, as its watch has seen."""
    found = Group()
    assert found.check() == set()
    return found


def test_a_tag_is_read_back() -> None:
    """A run's name may have dots and dashes; what is no tag is none, and no text of ranges is one."""
    for tag in (OURS, THEIRS):
        assert Tag.read(tag.text) == tag
        assert decode(tag.text, 10) == CommitMetadata(drops_ranges=True)
        text = tag.text_at(10, FACTS, 1_000)
        assert Tag.read(text) == tag
        assert decode(text, 10) == CommitMetadata(FACTS, drops_ranges=True)
        assert tag.text_at(10, FACTS, len(tag.text)) == tag.text
    for other in ("", MOVED, "ehk2.spark.", "ehk2.spark.-.c1", "ehk2.spark.-..run", "x", None):
        assert Tag.read(other) is None


def test_our_commits_are_ours(group: Group) -> None:
    """An equal commit is ours, also one without a text."""
    assert group.check() == set()
    group.commits[P1] = Commit(20, "")
    assert group.check() == set()


@pytest.mark.parametrize("commit", [Commit(-1001, ""), Commit(7, OURS.text), Commit(9, BEFORE.text)])
def test_an_expired_or_late_commit_is_made_again(group: Group, commit: Commit) -> None:
    """Kafka forgets commits, a broker may return an older one, and one of the run before may come late."""
    group.commits[P0] = commit
    assert group.check() == {P0}
    assert group.watch.lost is None


@pytest.mark.parametrize(
    ("commit", "who"),
    [
        (Commit(8, ""), "a consumer, ehkafka offsets reset or a tool"),
        (Commit(10, MOVED), "a consumer, ehkafka offsets reset or a tool"),
        (Commit(10, "ehk2.abc"), "a consumer, ehkafka offsets reset or a tool"),
        (Commit(10, THEIRS.text), r"another run on Spark \(other-2-bb\)"),
    ],
)
def test_a_group_that_was_moved_ends_the_run(group: Group, commit: Commit, who: str) -> None:
    """One look is enough, and nothing is committed over what it found."""
    group.commits[P0] = commit
    assert group.check() is None
    with pytest.raises(
        GroupInUseError, match=rf"by {who} since this run.*\(t\[0\]: 10, now {commit.offset}\)"
    ):
        raise group.watch.lost or AssertionError


def test_a_consumer_that_is_as_far_as_the_run_is_noticed(group: Group) -> None:
    """It handles the same records, and commits first where the run's own commit is about to be."""
    group.commits[P0] = Commit(12, "")
    assert group.check({P0: Position(1, 12), P1: STORED[P1]}) is None
    assert "t[0]: 10, now 12" in str(group.watch.lost)


def test_without_tags_offsets_alone_are_compared() -> None:
    """Where the broker does not give tags back, what was acknowledged and what was sent are both ours.

    The first look after the first commit tells.
    """
    group = Group()
    wanted = {P0: Position(1, 14), P1: Position(1, 20)}
    group.commits = {P0: Commit(14, "ehk2.sp"), P1: Commit(20, "?")}
    assert group.check(wanted) == set()
    assert not group.watch.keeps_tags
    group.commits[P0] = Commit(15, "")
    assert group.check(wanted) is None


def test_a_look_that_failed_tells_nothing(group: Group) -> None:
    """Nothing is committed before the next one, and the group is not lost."""
    group.is_up = False
    assert group.check() is None
    assert group.watch.lost is None
    group.is_up = True
    assert group.check() == set()


@pytest.mark.parametrize(
    "commit",
    [Commit(10, "ehk2.abc"), Commit(10, ""), Commit(12, ""), Commit(12, OURS.text), Commit(-1001, "")],
)
def test_a_commit_that_takes_nothing_away_keeps_no_run_from_beginning(group: Group, commit: Commit) -> None:
    """A start at 12 over a commit of 10: what stood there, the very start, or ours whose answer was lost."""
    group.commits[P0] = commit
    assert group.begin({P0: Commit(10, "ehk2.abc")}) is not None
    group.commits[P0] = Commit(-1001, "")
    assert group.begin({}) == set()


@pytest.mark.parametrize(
    "commit", [Commit(11, ""), Commit(9, MOVED), Commit(12, MOVED), Commit(12, THEIRS.text)]
)
def test_a_commit_since_the_look_ends_the_start(group: Group, commit: Commit) -> None:
    """Any other one, ahead or behind, and the tag of a run that has just begun."""
    group.commits[P0] = commit
    assert group.begin({P0: Commit(10, "ehk2.abc")}) is None
    with pytest.raises(GroupInUseError, match=rf"\(t\[0\]: 10, now {commit.offset}\)"):
        raise group.watch.lost or AssertionError


def test_a_run_before_that_has_committed_since_the_look_ends_the_start(group: Group) -> None:
    """It still runs, or has just ended: its commit is late only behind one of ours."""
    group.commits[P0] = Commit(14, BEFORE.text)
    assert group.begin({P0: Commit(10, BEFORE.text)}) is None
    with pytest.raises(GroupInUseError, match=r"another run on Spark \(before-1-cc\).*10, now 14"):
        raise group.watch.lost or AssertionError
