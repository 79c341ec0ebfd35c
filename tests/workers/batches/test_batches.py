"""The batch as a handler sees it: a sequence of records, and results that must make sense."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ehkafka import Batch, Record
from ehkafka.records.batch import Failed, Skipped, results_of
from tests.kit.simulated.message import SimulatedMessage


def make(count: int = 5) -> Batch:
    """A batch with keys and values that must not be shown."""
    messages = [SimulatedMessage("t", 1, 10 + n, b"secret-key", b"secret-value") for n in range(count)]
    return Batch([Record(message) for message in messages])


def test_a_batch_is_a_sequence_of_records() -> None:
    """Length, iteration, indexes, slices and membership as for any sequence."""
    batch = make()
    assert len(batch) == 5
    assert [record.offset() for record in batch] == [10, 11, 12, 13, 14]
    assert batch[-1].offset() == 14
    assert [record.offset() for record in batch[1:3]] == [11, 12]
    assert [record.offset() for record in reversed(batch)] == [14, 13, 12, 11, 10]
    assert batch[2] in batch
    assert batch.index(batch[3]) == 3
    with pytest.raises(IndexError):
        batch[5]


def test_its_repr_shows_where_it_begins_and_no_content() -> None:
    """A traceback or a log may show it."""
    batch = make()
    batch.fail(batch[0], ValueError("x"))
    batch.skip(batch[1], "y")
    assert repr(batch) == "<Batch of 5 records, first t[1]@10, 1 failed, 1 skipped>"
    assert repr(make(0)) == "<Batch of 0 records, 0 failed, 0 skipped>"


def test_results_are_kept_by_place() -> None:
    """A record that is equal by its place in the log is the same one, whatever wrapped it."""
    batch, error = make(), ValueError("x")
    batch.fail(Record(SimulatedMessage("t", 1, 13)), error)
    batch.skip(batch[0], "not ours")
    assert results_of(batch) == {3: Failed(error), 0: Skipped("not ours")}


@pytest.mark.parametrize(
    ("say", "kind", "words"),
    [
        (
            lambda b: b.fail(Record(SimulatedMessage("t", 1, 99)), ValueError()),
            ValueError,
            "t.1.@99 is not in",
        ),
        (lambda b: b.skip(Record(SimulatedMessage("u", 1, 10)), "x"), ValueError, "u.1.@10 is not in"),
        (lambda b: b.fail(3, ValueError()), TypeError, "not a value of type int"),
        (lambda b: b.fail(b[0:2], ValueError()), TypeError, "not a value of type tuple"),
        (lambda b: b.fail(b[0], "broken"), TypeError, "give the exception"),
        (lambda b: b.fail(b[0], KeyboardInterrupt()), TypeError, "give the exception"),
        (lambda b: b.skip(b[0], None), TypeError, "reason as text"),
        (
            lambda b: (b.fail(b[0], ValueError()), b.skip(b[0], "x")),
            ValueError,
            "already has the result failed",
        ),
        (lambda b: (b.skip(b[0], "x"), b.skip(b[0], "x")), ValueError, "already has the result skipped"),
    ],
)
def test_results_that_make_no_sense_are_refused(say: Any, kind: type[Exception], words: str) -> None:
    """Each says what is wrong; the first result stays."""
    batch = make()
    with pytest.raises(kind, match=words) as caught:
        say(batch)
    assert "secret" not in str(caught.value)


def test_a_result_after_the_handler_returned_is_refused() -> None:
    """It would be lost."""
    batch = make()
    assert results_of(batch) == {}
    with pytest.raises(RuntimeError, match=r"t\[1\]@10: the batch handler has returned"):
        batch.skip(batch[0], "too late")
    assert results_of(batch) == {}


def test_threads_of_the_handler_may_say_results() -> None:
    """2000 results from 8 threads, each record twice: each has one, and half of the calls were refused."""
    batch = make(1000)

    def say(index: int) -> int:
        try:
            batch.skip(batch[index % 1000], str(index))
        except ValueError:
            return 1
        return 0

    with ThreadPoolExecutor(8) as threads:
        refused = sum(threads.map(say, range(2000)))
    assert refused == 1000
    assert len(results_of(batch)) == 1000
