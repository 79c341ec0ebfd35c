"""The way past batches that cannot be read: the first offset behind them, and not one later."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from ehkafka.offsets.blocking import reading_properties
from ehkafka.positions.next_readable import next_readable
from ehkafka.records import TopicPartition
from tests.kit.broken_batches import CODES, broken_batch, good_batch, write_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.positions.next_readable import NextReadable
    from ehkafka.testing import EmbeddedBroker

GOOD = good_batch([b"good"])


class Late:
    """A client that begins to fetch a while after it is assigned, as on a machine that is busy."""

    def __init__(self, consumer: Consumer, late_s: float) -> None:
        self._consumer, self._late_s = consumer, late_s
        self._due: tuple[float, list[Any]] | None = None

    def assign(self, partitions: list[Any]) -> None:
        """Begin there, but later."""
        self._due = time.monotonic() + self._late_s, partitions

    def consume(self, number: int, timeout_s: float) -> list[Any]:
        """Return what has come by now."""
        if self._due is not None and time.monotonic() >= self._due[0]:
            self._consumer.assign(self._due[1])
            self._due = None
        return self._consumer.consume(number, timeout_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


@pytest.fixture
def find(embedded_broker_factory: Any) -> Callable[..., NextReadable | None]:
    """Return what finds an offset in a log of these batches."""
    broker: EmbeddedBroker = embedded_broker_factory({"t": 1})
    properties = reading_properties(
        {"bootstrap.servers": broker.bootstrap, "group.id": "-", "check.crcs": True}
    )

    def find(offset: int, *batches: bytes, late_s: float = 0.0) -> NextReadable | None:
        for batch in batches:
            write_batch(broker, "t", batch)

        def opened(own: Mapping[str, Any]) -> Any:
            consumer = Consumer({**properties, **own})
            return Late(consumer, late_s) if late_s else consumer

        return next_readable(opened, TopicPartition("t", 0), offset, 60.0)

    return find


@pytest.mark.parametrize("what", [what for what in CODES if what != "format"])
def test_the_first_offset_behind_the_batch_is_found(find: Any, what: str) -> None:
    """Wherever in the batch the position lies; of a broken length the client says nothing at all."""
    found = find(3, GOOD, broken_batch(what, 5), GOOD)
    assert found.offset == 6
    ((offset, reason),) = found.passed
    assert offset == 3
    assert CODES[what] in reason


def test_of_an_unknown_format_the_client_passes_one_offset(find: Any) -> None:
    """The rest of its batch brings neither a record nor an error."""
    assert find(1, GOOD, broken_batch("format", 3), GOOD).offset == 4


def test_several_batches_in_a_row_are_passed(find: Any) -> None:
    """Each is named; a record between two of them would have been found."""
    bad = broken_batch("compression", 3), broken_batch("codec", 2), broken_batch("checksum", 4)
    found = find(0, *bad, GOOD)
    assert found.offset == 9
    assert [offset for offset, _ in found.passed] == [0, 3, 5]


def test_a_record_between_two_such_batches_is_not_skipped(find: Any) -> None:
    """However far the search has stepped."""
    assert find(0, broken_batch("compression", 3), GOOD, broken_batch("compression", 9), GOOD).offset == 3


def test_behind_the_last_batch_is_the_end_of_the_log(find: Any) -> None:
    """What is written there next is read."""
    assert find(1, GOOD, broken_batch("codec", 2)).offset == 3


def test_where_all_can_be_read_nothing_is_passed(find: Any) -> None:
    """So the caller can refuse to move."""
    assert find(1, GOOD, GOOD) == (1, ())


def test_a_client_that_is_slow_to_fetch_passes_no_record(find: Any) -> None:
    """That nothing has come within a time proves nothing: a good batch would be taken for a broken one."""
    assert find(0, GOOD, GOOD, late_s=1.5) == (0, ())
