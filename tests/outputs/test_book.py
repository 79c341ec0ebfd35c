"""The book: whose offsets wait, how much room there is, and in which order all of it goes out again."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.book import NotSentError, OutputBook
from ehkafka.outputs.claim import Claim, Output
from ehkafka.records import TopicPartition
from tests.kit.waiting import wait_until
from tests.outputs.sender_bench import nobody, single


def new_epoch(partition: int = 0) -> Epoch:
    """Begin an epoch."""
    return Epoch(TopicPartition("t", partition), 1, {})


def add(book: OutputBook, epoch: Epoch, offset: int, *, alone: bool) -> Output:
    """Add a record's output, of two bytes; `alone`: without a claim."""
    if alone:
        output = single(epoch, offset, b"v%d" % offset, b"k")
        book.add_single(output)
        return output
    claim = Claim(nobody, ((epoch, offset),), None, 1)
    book.add(claim, [output := Output(claim, "out", b"v%d" % offset, b"k", None, -1, 2)])
    return output


def test_an_offset_waits_from_the_moment_that_its_output_is_added() -> None:
    """Before the sender, or anybody, has looked at it."""
    book, epoch, other = OutputBook(), new_epoch(), new_epoch(1)
    add(book, epoch, 4, alone=True)
    assert book.waiting(epoch) == {4}
    add(book, epoch, 5, alone=True)
    assert book.has_waiting(epoch)
    assert not book.has_waiting(other)
    assert book.waiting(epoch) == {4, 5}
    assert book.key_of(epoch, 5) == b"k"
    assert book.key_of(epoch, 6) is None


def test_mutant_what_was_added_is_sorted_in_by_the_sender_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit would pass what the sender has not come to see."""
    book, epoch = OutputBook(), new_epoch()
    monkeypatch.setattr(OutputBook, "_sort_in", lambda _self: None)
    add(book, epoch, 4, alone=True)
    assert book.waiting(epoch) == set()


def test_an_offset_waits_until_all_of_its_outputs_are_settled() -> None:
    """Those that came with a claim and those that came without one."""
    book, epoch = OutputBook(), new_epoch()
    outputs = [add(book, epoch, 7, alone=alone) for alone in (True, False)]
    for output in outputs:
        assert book.waiting(epoch) == {7}
        book.settle([output])
    assert book.waiting(epoch) == set()
    assert not book.has_waiting(epoch)


def test_all_is_given_in_the_order_of_its_making_whatever_was_taken_before() -> None:
    """Of several partitions, with claims and without."""
    book, one, other = OutputBook(), new_epoch(), new_epoch(1)
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
    book, epoch = OutputBook(), new_epoch()
    outputs = [add(book, epoch, n, alone=n % 3 > 0) for n in range(9)]
    assert book.take_all() != outputs


@pytest.mark.parametrize("alone", [False, True])
def test_an_epochs_end_lets_go_of_its_outputs_once(alone: bool) -> None:
    """Also of what nobody has looked at yet; an answer that comes later frees nothing more."""
    book, epoch, other = OutputBook(), new_epoch(), new_epoch(1)
    taken = add(book, epoch, 0, alone=alone)
    kept = add(book, other, 0, alone=alone)
    book.take_new()
    new = add(book, epoch, 1, alone=alone)
    epoch.ended = True
    assert book.end([epoch])
    assert (taken.is_dropped, new.is_dropped, kept.is_dropped) == (True, True, False)
    assert book.count() == 1
    book.settle([taken, new])
    assert book.count() == 1
    assert (book.waiting(epoch), book.waiting(other)) == (set(), {0})
    assert not book.end([epoch])
    with pytest.raises(NotSentError, match="taken away"):
        add(book, epoch, 2, alone=alone)
    book.settle([kept])
    assert (book.count(), book._bytes) == (0, 0)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("limit", [{"outputs_max": 2}, {"bytes_max": 4}], ids=str)
def test_a_worker_waits_for_room_and_no_longer(alone: bool, limit: dict[str, Any]) -> None:
    """Until something is settled."""
    book, epoch = OutputBook(**limit), new_epoch()
    first = add(book, epoch, 0, alone=alone)
    add(book, epoch, 1, alone=alone)
    assert not book.has_room()
    thread = threading.Thread(target=add, args=(book, epoch, 2), kwargs={"alone": alone}, daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert book.count() == 2
    book.settle([first])
    thread.join(30.0)
    assert not thread.is_alive()
    assert book.waiting(epoch) == {1, 2}


@pytest.mark.parametrize("alone", [False, True])
def test_who_waits_for_room_is_let_go_when_the_book_is_closed(alone: bool) -> None:
    """Its output is not taken."""
    book, epoch = OutputBook(outputs_max=1), new_epoch()
    add(book, epoch, 0, alone=alone)
    errors: list[Exception] = []

    def add_another() -> None:
        try:
            add(book, epoch, 1, alone=alone)
        except NotSentError as error:
            errors.append(error)

    thread = threading.Thread(target=add_another, daemon=True)
    thread.start()
    book.close()
    wait_until(lambda: len(errors) == 1, "it hears of it")
    assert "the app stops" in str(errors[0])
    assert book.waiting(epoch) == {0}
