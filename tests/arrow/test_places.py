"""What a user writes as start and end, as places in logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ehkafka.arrow.ends import Ends
from ehkafka.arrow.places import check_order, place_of
from ehkafka.errors import ConfigurationError
from ehkafka.ranges.places import EARLIEST, LATEST, AtOffsets, AtTime, AtWord
from ehkafka.records import TopicPartition

NOW = datetime(2026, 3, 1, 12, 0, 0, 500, tzinfo=UTC)
NOW_MS = 1_772_366_400_001  # the next millisecond
P0, P1 = (TopicPartition("readings", number) for number in range(2))
BEGIN = AtTime(0, after_last="latest")


def _place(given: object, name: str = "start") -> Any:
    return place_of(name, given, "readings", (P0, P1), NOW)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("earliest", AtWord("earliest")),
        ("latest", AtWord("latest")),
        ("now", AtWord("latest")),
        (7, AtOffsets(((P0, 7), (P1, 7)))),
        ({0: 7, 1: "latest"}, AtOffsets(((P0, 7), (P1, LATEST)))),
        ({0: "earliest", 5: "now"}, AtOffsets(((P0, EARLIEST), (TopicPartition("readings", 5), LATEST)))),
        ("1970-01-01T00:00:01Z", AtTime(1000, after_last="latest")),
        (" 1970-01-01T02:00:01+02:00 ", AtTime(1000, after_last="latest")),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), AtTime(1, after_last="latest")),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), BEGIN),
        (datetime(1600, 1, 1, tzinfo=UTC), BEGIN),
        (timedelta(0), AtTime(NOW_MS, after_last="latest")),
        (timedelta(hours=1), AtTime(NOW_MS - 3_600_000, after_last="latest")),
        (timedelta.max, BEGIN),
        (Ends("readings", {0: 3}), AtOffsets(((P0, 3),), "earliest")),
        (Ends("readings", {0: 3, 9: 4}), AtOffsets(((P0, 3),), "earliest")),
    ],
)
def test_each_form_is_a_place(given: object, place: object) -> None:
    """Words, offsets, times with their zones, and ends: new partitions begin with their logs."""
    assert _place(given) == place


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("erliest", "start='erliest' is not understood: give 'earliest'"),
        ("2026-01-01T00:00:00", "is not understood"),
        ("2026-01-01", "is not understood"),
        (datetime(2026, 1, 1), "is not understood"),  # noqa: DTZ001 - on purpose
        (timedelta(seconds=-1), "is not understood"),
        (-1, "is not understood"),
        (True, "is not understood"),
        (2**63, "is not understood"),
        (1.5, "is not understood"),
        (None, "is not understood"),
        ({}, "names no partition"),
        ({"0": 1}, "give a partition's number"),
        ({0: "later"}, "give a partition's number"),
        ({-1: 1}, "give a partition's number"),
        ({0: -1}, "give a partition's number, and the offset as 0 or more"),
        (Ends("others", {0: 3}), "belong to topic 'others', but topic 'readings' is read"),
        ("Endpoint=sb://h.servicebus.windows.net/;SharedAccessKey=azE=", r"\*\*\*"),
    ],
)
def test_what_is_no_place_is_refused(given: object, text: str) -> None:
    """By the argument's name, with the forms; a time without a zone may mean several moments."""
    with pytest.raises(ConfigurationError, match=text):
        _place(given)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ("earliest", "earliest", "range ends at earliest"),
        ("2026-03-01T12:00:01Z", "now", "is in the future"),
        ("2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z", "end is before the start"),
        (timedelta(hours=1), timedelta(hours=2), "end is before the start"),
    ],
)
def test_what_can_hold_no_record_is_refused(start: object, end: object, text: str) -> None:
    """Before the broker is asked."""
    with pytest.raises(ConfigurationError, match=text):
        check_order(_place(start), _place(end, "end"), NOW)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (timedelta(hours=1), "now"),
        (timedelta(0), "now"),
        ("now", "now"),
        ("earliest", timedelta(hours=1)),
        (4, 5),
    ],
)
def test_what_may_hold_records_is_taken(start: object, end: object) -> None:
    """The moment of the call is not in the future, and an empty range is none that is wrong."""
    check_order(_place(start), _place(end, "end"), NOW)
