"""Positions that a revoke could not commit: where the next epoch begins, and what is handled again."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.positions.finder import Begin
from ehkafka.positions.refused import RefusedPositions
from ehkafka.positions.restore import above_refused, stored
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
FACTS = LogFacts(first_partitions=4, witness=(12, 5_000))
REFUSED = Position(1, 13, 6, "a text", ((15, 17),), 7, FACTS)
MIRRORED = Begin(P0, 11, is_mirrored=True)


def committed(offset: int, **more: Any) -> Begin:
    """Return where a partition begins whose group has this commit."""
    return Begin(P0, offset, KafkaPartition(*P0, offset), **more)


def kept(before: int | None) -> RefusedPositions:
    """Return a refused position that was to replace this commit."""
    refused = RefusedPositions()
    refused.keep({P0: REFUSED}, {P0: None if before is None else Position(1, before)}, why="no reason")
    return refused


@pytest.mark.parametrize("before", [10, None])
def test_a_partition_that_comes_back_begins_at_the_refused_position(before: int | None) -> None:
    """The group still has what the position was to replace; the refused one is not taken for stored."""
    refused = kept(before)
    refused.assigned([P0, P1])
    assert refused.is_waiting
    found = Begin(P0, 0, is_new=True, is_empty=True) if before is None else committed(before)
    (begin,) = refused.resumed([found])
    assert (begin.offset, begin.facts, begin.is_new, begin.is_empty) == (13, FACTS, False, False)
    asked = begin.kafka_partition()
    assert (asked.offset, asked.leader_epoch) == (13, 6)
    above = above_refused(begin)
    assert above is not None
    assert (above.next_offset, above.finished, above.leader_epoch) == (13, ((15, 17),), 7)
    is_stored = stored(begin, 2, above)
    assert (is_stored and (is_stored.next_offset, is_stored.finished)) == (before and (before, ()))
    assert not refused.is_waiting
    assert refused.unsaved() == set()
    assert refused.resumed([found]) == [found]


@pytest.mark.parametrize(
    ("before", "begin", "repeats"),
    [
        (10, committed(9), True),
        (10, committed(12), True),
        (10, committed(13), False),
        (10, committed(20), False),
        (10, Begin(P0, 0), True),
        (10, Begin(P0, 0, disproved=KafkaPartition(*P0, 10)), True),
        (None, committed(0), True),
        (None, MIRRORED, True),
        (None, Begin(P0, 0, disproved=KafkaPartition(*P0, 10)), True),
    ],
    ids=[
        "an operator moved the group back",
        "another owner has committed",
        "the refused commit was stored all the same",
        "another owner is further",
        "the commit has gone",
        "the log is another one",
        "another owner has committed first",
        "the mirror decides",
        "another one's commit was of another log",
    ],
)
def test_any_other_commit_of_the_group_decides(before: int | None, begin: Begin, *, repeats: bool) -> None:
    """And the partition counts as not saved, if the group is behind the refused position."""
    refused = kept(before)
    assert refused.resumed([begin]) == [begin]
    assert refused.unsaved() == ({P0} if repeats else set())
    assert above_refused(begin) is None


def test_the_next_assignment_ends_the_wait_for_partitions_of_others() -> None:
    """A later assignment begins at the group's commit, whatever that is."""
    refused = kept(10)
    refused.assigned([P1])
    assert not refused.is_waiting
    assert refused.unsaved() == {P0}
    assert refused.resumed([committed(10)]) == [committed(10)]


def test_what_no_later_commit_may_have_is_given_up_at_once() -> None:
    """As of a group that has forgotten this member; the reason is that of the last ones."""
    refused = RefusedPositions()
    refused.give_up([P0], why="forgotten")
    refused.give_up([], why="nothing")
    assert (refused.is_waiting, refused.unsaved(), refused.why) == (False, {P0}, "forgotten")
