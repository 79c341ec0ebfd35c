"""The book: whose offsets wait, how much room there is, and in which order all of it goes out again."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ehkafka.lanes.assignment import Assignment
from ehkafka.outputs.book import NotSentError, OutputBook
from ehkafka.outputs.claim import Claim, Output
from ehkafka.records import TopicPartition
from tests.kit.waiting import wait_until
from tests.outputs.sender_bench import nobody, single


def epoch(partition: int = 0) -> Assignment:
    """Begin an epoch."""
    return Assignment(TopicPartition("t", partition), 1)


def add(book: OutputBook, assignment: Assignment, offset: int, *, alone: bool) -> Output:
    """Add a record's output, of two bytes; `alone`: without a claim."""
    if alone:
        output = single(assignment, offset, b"v%d" % offset, b"k")
        book.add_single(output)
        return output
    claim = Claim(nobody, ((assignment, offset),), None, 1)
    book.add(claim, [output := Output(claim, "out", b"v%d" % offset, b"k", None, -1, 2)])
    return output


def test_an_offset_waits_from_the_moment_that_its_output_is_added() -> None:
    """Before the sender, or anybody, has looked at it."""
    book, assignment, other = OutputBook(), epoch(), epoch(1)
    add(book, assignment, 4, alone=True)
    assert book.waiting(assignment) == {4}
    add(book, assignment, 5, alone=True)
    assert book.has_waiting(assignment)
    assert not book.has_waiting(other)
    assert book.waiting(assignment) == {4, 5}
    assert book.key_of(assignment, 5) == b"k"
    assert book.key_of(assignment, 6) is None


def test_mutant_what_was_added_is_sorted_in_by_the_sender_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit would pass what the sender has not come to see."""
    book, assignment = OutputBook(), epoch()
    monkeypatch.setattr(OutputBook, "_sort_in", lambda _self: None)
    add(book, assignment, 4, alone=True)
    assert book.waiting(assignment) == set()


def test_an_offset_waits_until_all_of_its_outputs_are_settled() -> None:
    """Those that came with a claim and those that came without one."""
    book, assignment = OutputBook(), epoch()
    outputs = [add(book, assignment, 7, alone=alone) for alone in (True, False)]
    for output in outputs:
        assert book.waiting(assignment) == {7}
        book.settle([output])
    assert book.waiting(assignment) == set()
    assert not book.has_waiting(assignment)


def test_all_is_given_in_the_order_of_its_making_whatever_was_taken_before() -> None:
    """Of several partitions, with claims and without."""
    book, one, other = OutputBook(), epoch(), epoch(1)
    outputs = [add(book, (one, other)[n % 2], n, alone=n % 3 > 0) for n in range(9)]
    assert book.take_new() == outputs
    outputs += [add(book, (one, other)[n % 2], n, alone=n % 3 > 0) for n in range(9, 15)]
    book.settle(outputs[3:6])
    del outputs[3:6]
    assert book.take_all() == outputs
    assert not book.has_new()
    assert book.take_new() == []


def test_mutant_all_is_given_without_a_look_at_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a key's outputs would change places where only some of its calls have made a claim."""
    monkeypatch.setattr("ehkafka.outputs.book._serial_of", lambda _output: 0)
    book, assignment = OutputBook(), epoch()
    outputs = [add(book, assignment, n, alone=n % 3 > 0) for n in range(9)]
    assert book.take_all() != outputs


@pytest.mark.parametrize("alone", [False, True])
def test_an_epochs_end_lets_go_of_its_outputs_once(alone: bool) -> None:
    """Also of what nobody has looked at yet; an answer that comes later frees nothing more."""
    book, assignment, other = OutputBook(), epoch(), epoch(1)
    taken = add(book, assignment, 0, alone=alone)
    kept = add(book, other, 0, alone=alone)
    book.take_new()
    new = add(book, assignment, 1, alone=alone)
    assignment.ended = True
    assert book.end([assignment])
    assert (taken.is_dropped, new.is_dropped, kept.is_dropped) == (True, True, False)
    assert book.count() == 1
    book.settle([taken, new])
    assert book.count() == 1
    assert (book.waiting(assignment), book.waiting(other)) == (set(), {0})
    assert not book.end([assignment])
    with pytest.raises(NotSentError, match="taken away"):
        add(book, assignment, 2, alone=alone)
    book.settle([kept])
    assert (book.count(), book._bytes) == (0, 0)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("limit", [{"outputs_max": 2}, {"bytes_max": 4}], ids=str)
def test_a_worker_waits_for_room_and_no_longer(alone: bool, limit: dict[str, Any]) -> None:
    """Until something is settled."""
    book, assignment = OutputBook(**limit), epoch()
    first = add(book, assignment, 0, alone=alone)
    add(book, assignment, 1, alone=alone)
    assert not book.has_room()
    thread = threading.Thread(target=add, args=(book, assignment, 2), kwargs={"alone": alone}, daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert book.count() == 2
    book.settle([first])
    thread.join(30.0)
    assert not thread.is_alive()
    assert book.waiting(assignment) == {1, 2}


@pytest.mark.parametrize("alone", [False, True])
def test_who_waits_for_room_is_let_go_when_the_book_is_closed(alone: bool) -> None:
    """Its output is not taken."""
    book, assignment = OutputBook(outputs_max=1), epoch()
    add(book, assignment, 0, alone=alone)
    errors: list[Exception] = []

    def add_another() -> None:
        try:
            add(book, assignment, 1, alone=alone)
        except NotSentError as error:
            errors.append(error)

    thread = threading.Thread(target=add_another, daemon=True)
    thread.start()
    book.close()
    wait_until(lambda: len(errors) == 1, "it hears of it")
    assert "the app stops" in str(errors[0])
    assert book.waiting(assignment) == {0}
