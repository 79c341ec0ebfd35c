"""A batch whose records are made late: it reads as one that has them, and every reader gets the same ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.records import Record
from ehkafka.records.batch import Failed, late_batch, results_of
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from ehkafka.records.batch import Batch


class Late:
    """A batch of three, and how often its records were made."""

    def __init__(self) -> None:
        self.made = 0
        self.batch: Batch[Any] = late_batch(3, self._make)

    def _make(self) -> list[Record]:
        self.made += 1
        return [Record(SimulatedMessage("t", 0, offset, b"key")) for offset in range(3)]


@pytest.fixture
def late() -> Late:
    """Return one that no code has read."""
    return Late()


def test_a_handler_that_looks_at_no_record_makes_none(late: Late) -> None:
    """Its length is known, and that nothing was said of any."""
    assert (len(late.batch), bool(late.batch), results_of(late.batch)) == (3, True, {})
    assert late.made == 0


def test_every_look_finds_the_same_records(late: Late) -> None:
    """What a handler keeps of one, or sets in one, is there at the next look."""
    first = list(late.batch)
    assert [record.offset() for record in first] == [0, 1, 2]
    assert all(one is other for one, other in zip(first, late.batch, strict=True))
    assert late.batch[2] is first[2]
    assert late.batch[1:] == tuple(first[1:])
    assert late.made == 1


def test_a_result_may_be_the_first_look(late: Late) -> None:
    """A record is known by its place in the log."""
    error = ValueError("no")
    late.batch.fail(Record(SimulatedMessage("t", 0, 1, b"key")), error)
    assert results_of(late.batch) == {1: Failed(error)}
    assert late.made == 1


def test_threads_that_look_at_once_get_the_same_records(late: Late) -> None:
    """A handler may share its batch out before it has looked at it."""
    together = threading.Barrier(8)
    found: list[int] = []

    def ask() -> None:
        together.wait()
        found.append(id(late.batch[0]))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [id(late.batch[0])] * 8
    assert late.made == 1
