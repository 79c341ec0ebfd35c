"""Bundles: divided into batches, and taken apart where anything is not as usual."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.outputs.answered import Answered
from ehkafka.outputs.batch import OutputBatch
from ehkafka.outputs.book import ADDED_MAX, PARTS, NotSentError, OutputBook
from ehkafka.outputs.bundle import Bundle, Columns
from ehkafka.outputs.first_answers import FirstAnswers
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.refusals import Refusals
from tests.kit.simulated.message import SimulatedMessage
from tests.outputs.sender_bench import (
    REFUSED,
    Bench,
    answer_for,
    batches_of,
    full_after,
    has_room_again,
    partition_of,
)


def end_some(bench: Bench) -> str:
    """End one of two epochs that a bundle has outputs of; return what the next producer is given."""
    other = bench.assign(1)
    bench.add("a0")
    bench.add("b1", other)
    bench.add("a2")
    bench.turn()
    assert batches_of(bench) == 2
    other.ended = True
    assert bench.book.end([other])
    bench.sender._purges.append(done := threading.Event())
    bench.turn()
    assert done.is_set()
    return bench.main.client.values()


def test_the_end_of_an_epoch_takes_its_outputs_out_of_a_bundle(bundled: Bench) -> None:
    """The others go again; nothing of the ended one is counted any more."""
    assert end_some(bundled) == "a0 a2"
    bundled.main.client.answer(2)
    bundled.turn()
    assert bundled.book.count() == 0


def test_mutant_an_ended_epoch_stays_in_its_bundle(bundled: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old owner's output stays with its producer, and may come behind the new owner's."""
    monkeypatch.setattr(Bundle, "is_dropped", False)
    assert end_some(bundled) == "a0 a2 b1"


def test_what_is_added_as_its_epoch_ends_is_dropped(bundled: Bench) -> None:
    """A worker looked before the end, and added after it."""
    bundled.epoch.ended = True
    bundled.book.end([bundled.epoch])
    message = SimulatedMessage("t", 0, 0, b"a")
    bundled.book.added.extend((bundled.outlet, bundled.epoch, message, b"a", b"a0", None))
    bundled.turn()
    assert (bundled.main.client.values(), bundled.book.count()) == ("", 0)
    with pytest.raises(NotSentError, match="taken away"):
        bundled.add("a1")


@pytest.mark.parametrize("is_new", [False, True], ids=["taken apart", "as it is"])
def test_what_is_dropped_before_the_end_is_asked_for_is_taken_back_all_the_same(
    reported: Bench, *, is_new: bool
) -> None:
    """An epoch ends, the sender goes round, and only then somebody asks and waits for it."""
    other = reported.assign(1)
    full_after(reported, 2)
    reported.add("a0 a1 a2", other)
    reported.turn()
    other.ended = True
    reported.turn(0 if is_new else 1)
    assert reported.book.end([other])
    reported.sender._purges.append(threading.Event())
    has_room_again(reported)
    reported.turn()
    assert (reported.main.client.values(), reported.book.count()) == ("", 0)


def test_what_is_left_of_a_half_sent_batch_waits_for_a_refused_output(reported: Bench) -> None:
    """Refused meanwhile, by a broker that goes on with its producer."""
    reported.add("a0")
    reported.turn()
    full_after(reported, 1)
    reported.add("d1 a2")
    reported.turn()
    answer_for(reported, "a0", KafkaError._UNKNOWN_TOPIC)
    full_after(reported, 0)
    reported.turn()
    has_room_again(reported)
    reported.turn(2)
    assert reported.main.client.values() == "d1"


@pytest.mark.parametrize("order", ["5 3 4", "3 9b 5", "7 9b 3 8b 4 1b", "9b 3"])
def test_the_lowest_of_an_epoch_is_found_wherever_it_stands(order: str) -> None:
    """Several workers add at once, so neither epochs nor offsets stand in order."""
    ours, others = object(), object()
    places = [(others, int(one[:-1])) if one.endswith("b") else (ours, int(one)) for one in order.split()]
    epochs: Any = [epoch for epoch, _ in places]
    messages = [SimulatedMessage("t", 0, offset, b"k") for _, offset in places]
    same: list[bytes] = [b"k"] * len(places)
    outlet: Any = None
    epoch: Any
    columns = Columns(epochs, messages, same, same, [None] * len(places), range(len(places)))
    bundle = Bundle(outlet, columns)
    for epoch in {ours, others}.intersection(epochs):
        assert bundle.lowest(epoch) == min(offset for one, offset in places if one is epoch)


def test_the_sender_does_not_sleep_while_somebody_sorts_in(bundled: Bench) -> None:
    """What was added stands nowhere for a moment: not where workers put it, and not where it is taken."""
    bundled.add("a0")
    with bundled.book._lock:
        entry = [bundled.book.added.popleft() for _ in range(PARTS)]
        asked = threading.Thread(target=lambda: found.append(bundled.book.has_new()))
        found: list[bool] = []
        asked.start()
        asked.join(0.05)
        bundled.book.added.extend(entry)
    asked.join()
    assert found == [True]


def refuse_the_first(bench: Bench) -> str:
    """Let the first output of a producer be refused; return what of its key went with it, and of others."""
    bench.add("a0 b1 a2 b3")
    bench.turn()
    return bench.main.client.values()


def test_a_key_without_an_answer_is_taken_out_of_its_bundle() -> None:
    """Its second output waits for the first one's answer; once it is there, the key stays in bundles."""
    bench = Bench(way="bundles", at_once=False)
    assert refuse_the_first(bench) == "a0 b1"
    bench.main.client.answer()
    bench.turn(2)
    assert bench.main.client.values() == "b1 a2"
    bench.add("a4 b5 a6")
    bench.turn()
    assert bench.main.client.values() == "b1 a2 a4 a6"
    assert batches_of(bench) == 1


def test_mutant_no_key_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second output would pass the first one, where that is refused."""
    monkeypatch.setattr(
        FirstAnswers, "partitions", lambda _first, _topic, keys: list(map(partition_of, keys))
    )
    assert refuse_the_first(Bench(way="bundles", at_once=False)) == "a0 a2 b1 b3"


def refuse_and_add(bench: Bench) -> str:
    """Let an output be refused, and add a later one of its key with others; return what goes at once."""
    bench.add("a0")
    bench.turn()
    answer_for(bench, "a0", REFUSED)
    bench.main.is_lost = True
    bench.turn()
    bench.add("a1 b2")
    bench.turn()
    return bench.main.client.values()


def test_what_waits_for_a_refused_output_is_taken_out_of_its_bundle(bundled: Bench) -> None:
    """The others of the bundle do not wait."""
    assert refuse_and_add(bundled) == "b2"


def test_mutant_it_stays_in_its_bundle(bundled: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later one would pass the refused one."""
    monkeypatch.setattr(Refusals, "keys", lambda *_: set())
    assert refuse_and_add(bundled) == "a1 b2"


def test_headers_go_with_each_output() -> None:
    """An outlet makes bundles of JSON, too, which has a content type; no call takes many such at once."""
    book = OutputBook()
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000)
    epoch = Bench().assign()
    for offset, value in enumerate([b"a", {"n": 1}, "text", b"x" * 500]):
        message: Any = SimulatedMessage("t", 0, offset, b"k")
        outlet.post_plain(epoch, message, value)
    (bundle,) = book.take_new()
    assert isinstance(bundle, Bundle)
    outputs = book.take_all()
    assert [one.value for one in outputs] == [b"a", b'{"n":1}', b"text", b"x" * 500]
    assert [bool(one.headers) for one in outputs] == [False, True, True, False]
    assert outputs[1].headers == [("content-type", b"application/json")]
    batch, given = OutputBatch(outlet, bundle.columns, 0), []
    produced = SimpleNamespace(produce=lambda *_, headers=None: given.append(headers))
    batch.send(produced, Answered(), at_once=True)
    assert [bool(one) for one in given] == [False, True, True, False]


def test_workers_wait_where_many_outputs_are_not_looked_at() -> None:
    """Their bytes are counted by then, so that a stuck sender costs no more memory than it may."""
    book = OutputBook(bytes_max=10_000)
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000)
    epoch = Bench().assign()
    for offset in range(ADDED_MAX):
        outlet.post_plain(epoch, SimulatedMessage("t", 0, offset, b"k"), b"0123456789")  # type: ignore[arg-type]
    assert len(book.added) == ADDED_MAX * PARTS
    assert not book.is_full
    book.has_waiting(epoch)
    assert book.is_full


@pytest.mark.parametrize("ends_the_call", [True, False])
def test_the_one_value_of_a_coroutine_goes_with_others_unless_its_call_may_still_fail(
    *, ends_the_call: bool
) -> None:
    """Where it may, an attempt that fails reports what it had sent, for which there must be a claim."""
    book = OutputBook()
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000, is_async=True)
    epoch = Bench().assign()
    message: Any = SimulatedMessage("t", 0, 0, b"k")
    claim = outlet.begin(epoch, message, 1)
    asyncio.run(outlet.take_async(message, b"v", ends_the_call=ends_the_call))
    assert claim.posted == (not ends_the_call)
    outlet.returned(claim)
    (taken,) = book.take_new()
    assert isinstance(taken, Bundle) == ends_the_call
    assert book.waiting(epoch) == {0}


def test_a_second_output_of_a_coroutine_goes_behind_the_first() -> None:
    """What was sent before it returned has a claim, and so has the rest."""
    book = OutputBook()
    outlet = Outlet(book, handler="h", topics=("out",), bytes_max=1_000, is_async=True)
    message: Any = SimulatedMessage("t", 0, 0, b"k")
    claim = outlet.begin(Bench().assign(), message, 1)
    outlet.send(message, b"first")
    asyncio.run(outlet.take_async(message, b"second", ends_the_call=True))
    assert claim.posted == 2
    assert [one.value for one in book.take_all()] == [b"first", b"second"]
