"""Where a query begins and ends, as offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.begin import offsets_of
from ehkafka.ranges.places import EARLIEST, LATEST, AtGroup, AtOffsets, AtTime, AtWord
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from ehkafka.ranges.places import Start
    from tests.spark.source.conftest import FakeLog

P0, P1 = (TopicPartition("readings", number) for number in range(2))


@pytest.fixture
def grown(log: FakeLog) -> FakeLog:
    """Return logs that hold 3 to 10, and 0 to 5."""
    log.grow("readings", 10, 5)
    log.first[P0] = 3
    return log


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (AtWord("earliest"), {P0: 3, P1: 0}),
        (AtWord("latest"), {P0: 10, P1: 5}),
        (AtOffsets(((P0, 4), (P1, LATEST))), {P0: 4, P1: 5}),
        (AtOffsets(((P0, EARLIEST), (P1, 5))), {P0: 3, P1: 5}),
        (AtOffsets(((P0, 4),), "earliest"), {P0: 4, P1: 0}),
        (AtOffsets(((P0, 4),), "latest"), {P0: 4, P1: 5}),
        (AtTime(1002), {P0: 2, P1: 2}),
        (AtTime(1007, after_last="latest"), {P0: 7, P1: 5}),
        (AtTime(by_partition=((P0, 1008), (P1, 1001))), {P0: 8, P1: 1}),
        (AtGroup("home"), {P0: 6, P1: 0}),
        (AtGroup("home", AtWord("latest")), {P0: 6, P1: 5}),
        (AtGroup("home", AtTime(1003)), {P0: 6, P1: 3}),
    ],
)
def test_places_are_looked_up(grown: FakeLog, place: Start, found: dict[TopicPartition, int]) -> None:
    """Words, offsets, moments and a group's commits, each with what stands in where there is none."""
    grown.commits = {"home": {P0: 6}}
    assert offsets_of(place, grown, grown.partitions()) == found


@pytest.mark.parametrize("otherwise", [AtWord("latest"), AtTime(1003)])
def test_a_partition_that_the_group_has_not_seen_yet_begins_with_its_log(
    grown: FakeLog, otherwise: AtWord | AtTime
) -> None:
    """It was added since the group's first commits: what was written to it is not passed over."""
    grown.commits, grown.new = {"home": {P0: 6}}, {P0, P1}
    assert offsets_of(AtGroup("home", otherwise), grown, grown.partitions()) == {P0: 6, P1: 0}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (AtOffsets(((P0, 4),)), r"do not name readings\[1\].*startingOffsetsUnnamed"),
        (AtOffsets(((TopicPartition("x", 0), 0),), "latest"), r"name x\[0\]"),
        (AtOffsets(((P0, 4), (P1, 0), (TopicPartition("x", 0), 0))), r"name x\[0\]"),
        (AtOffsets(((P0, 11), (P1, 0))), "beyond the end of its log, 10"),
        (AtTime(1007), r"readings\[1\] has no record at or after the start time, 1007 ms .*Strategy=latest"),
        (AtTime(by_partition=((P0, 1),)), r"do not name readings\[1\]"),
        (AtGroup("home", None), r"'home' has committed nothing on readings\[0\]"),
    ],
)
def test_a_place_that_is_none_is_refused(grown: FakeLog, place: Start, text: str) -> None:
    """What is forgotten, misspelt or not there must not begin somewhere."""
    with pytest.raises(ConfigurationError, match=text):
        offsets_of(place, grown, grown.partitions())
