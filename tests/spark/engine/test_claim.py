"""Whose a group's commits are, as values: marks, and what follows of what stands in the group."""

from __future__ import annotations

import pytest

from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import MOVED, CommitMetadata, LogFacts, decode
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group.judge import Claim, Commit, Ownership, moved_since
from ehkafka.spark.engine.group.marks import Mark

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OURS, THEIRS = Mark("host.example-1-aa", "c1"), Mark("other-2-bb")
STORED = {P0: Position(1, 10, metadata=OURS.text), P1: Position(1, 20, metadata=OURS.text)}
FACTS = LogFacts(8, bytes(range(16)), (7, 1_790_000_000_000), "june")
SAME = {P0: Commit(10, OURS.text), P1: Commit(20, OURS.text)}


def judge(claim: Claim, found: dict[TopicPartition, Commit]) -> Ownership:
    """Judge with what is stored wanted as well."""
    return claim.judge(SAME | found, STORED, STORED)


def test_a_mark_is_read_back() -> None:
    """A run's name may have dots and dashes; what is no mark is none, and no text of ranges is one."""
    for mark in (OURS, THEIRS, OURS._replace(has_ended=True)):
        assert Mark.read(mark.text) == mark
        assert decode(mark.text, 10) == CommitMetadata(drops_ranges=True)
        text = mark.beside(10, FACTS, 1_000)
        assert Mark.read(text) == mark
        assert decode(text, 10) == CommitMetadata(FACTS, drops_ranges=True)
        assert mark.beside(10, FACTS, len(mark.text)) == mark.text
    for text in ("", MOVED, "ehk2.spark.", "ehk2.spark.-.runs.c1", "ehk2.spark.-.sleeps.c1.run", "x", None):
        assert Mark.read(text) is None


def test_what_we_committed_is_ours() -> None:
    """An equal commit is ours, also one without a word; and a partition whose commit is under way."""
    claim = Claim(OURS, is_new=False)
    assert judge(claim, {}) == Ownership()
    assert judge(claim, {P1: Commit(20, "")}) == Ownership()
    assert claim.judge({P0: Commit(7, THEIRS.text)}, {}, STORED) == Ownership()


def test_an_expired_or_older_commit_of_ours_is_made_again() -> None:
    """Kafka expires commits of partitions without records; a broker that fails may give an older one back."""
    claim = Claim(OURS, is_new=False)
    assert judge(claim, {P0: Commit(-1001, ""), P1: Commit(15, OURS.text)}) == Ownership(frozenset({P0, P1}))


def test_a_newcomer_gives_way() -> None:
    """A run that has just begun and finds another's mark ends, whatever it knew before."""
    claim = Claim(OURS, before={THEIRS.run})
    assert judge(claim, {P0: Commit(10, THEIRS.text)}).lost_to == THEIRS.run


def test_a_running_one_puts_its_mark_back_once() -> None:
    """Against a newcomer it stays; against one that comes back it gives way."""
    claim = Claim(OURS, is_new=False)
    challenge = {P0: Commit(10, THEIRS.text)}
    assert judge(claim, challenge) == Ownership(frozenset({P0}), challenger=THEIRS.run)
    assert judge(claim, {}) == Ownership()
    ownership = judge(claim, challenge)
    assert ownership.lost_to == THEIRS.run
    assert not ownership.may_commit


def test_one_that_took_over_never_gives_way_to_the_run_before() -> None:
    """The run that slept meanwhile puts its mark back, and finds ours again and again."""
    claim = Claim(OURS, before={THEIRS.run}, is_new=False)
    for _ in range(3):
        assert judge(claim, {P1: Commit(17, THEIRS.text)}) == Ownership(frozenset({P1}))


def test_one_that_took_over_went_on_and_ended_is_not_committed_over() -> None:
    """Who slept meanwhile and commits less than it finished has its records handled a third time."""
    ended = THEIRS._replace(has_ended=True).text
    assert judge(Claim(OURS, is_new=False), {P0: Commit(11, ended)}).lost_to == THEIRS.run


def test_one_that_ended_where_it_began_takes_nothing_away() -> None:
    """A start that failed, and a run that stood there before ours, leave us where we are."""
    ended = THEIRS._replace(has_ended=True).text
    ownership = judge(Claim(OURS, is_new=False), {P0: Commit(10, ended)})
    assert ownership == Ownership(frozenset({P0}), challenger=THEIRS.run)
    before = Claim(OURS, before={THEIRS.run}, is_new=False)
    assert judge(before, {P0: Commit(11, ended)}) == Ownership(frozenset({P0}))


@pytest.mark.parametrize("commit", [Commit(8, ""), Commit(12, ""), Commit(10, MOVED), Commit(10, "ehk2.abc")])
def test_what_somebody_else_committed_is_not_committed_over(commit: Commit) -> None:
    """A reset or a consumer that came and went is believed when it is seen twice; until then we wait."""
    claim = Claim(OURS, is_new=False)
    first = judge(claim, {P0: commit})
    assert (first.may_commit, first.is_sure) == (False, False)
    assert judge(claim, {P0: commit}).is_sure
    assert not judge(claim, {P0: Commit(9, "")}).is_sure


def test_without_marks_offsets_alone_are_compared() -> None:
    """Where the broker does not give marks back, what was acknowledged and what was sent are both ours."""
    claim = Claim(OURS, is_new=False, keeps_marks=False)
    wanted = {P0: Position(1, 14), P1: Position(1, 20)}
    garbled = {P0: Commit(14, "ehk2.sp"), P1: Commit(20, "?")}
    assert claim.judge(garbled, STORED, wanted) == Ownership()
    assert not claim.judge({P0: Commit(15, "")}, STORED, wanted).may_commit


@pytest.mark.parametrize(
    "commit",
    [
        Commit(10, "ehk2.abc"),  # what it was
        Commit(12, ""),  # others committed the very start
        Commit(12, MOVED),
        Commit(12, THEIRS._replace(has_ended=True).text),
        Commit(12, OURS.text),  # we did
    ],
)
def test_a_commit_that_takes_nothing_away_keeps_no_run_from_beginning(commit: Commit) -> None:
    """A start at 12 over a commit of 10: what stood there, or says no more than it is going to say."""
    before, starts = {P0: Commit(10, "ehk2.abc")}, {P0: Position(1, 12)}
    assert moved_since(before, {P0: commit}, starts, OURS.run) == {}
    assert moved_since({}, {P0: Commit(-1001, "")}, starts, OURS.run) == {}


@pytest.mark.parametrize(
    "commit",
    [Commit(11, ""), Commit(9, MOVED), Commit(10, ""), Commit(12, THEIRS.text), Commit(-1001, "")],
)
def test_a_commit_since_the_look_is_reported(commit: Commit) -> None:
    """Any other one is somebody's, ahead or behind, and so is the mark of a run that has just begun."""
    before, starts = {P0: Commit(10, "ehk2.abc")}, {P0: Position(1, 12)}
    assert moved_since(before, {P0: commit}, starts, OURS.run) == {P0: commit}
