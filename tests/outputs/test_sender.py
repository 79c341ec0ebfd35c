"""The rules of order, one by one, with a producer that a test answers; without its guard each goes red."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from ehkafka.outputs.book import NotSentError, OutputBook
from ehkafka.outputs.claim import Claim, Output
from ehkafka.outputs.first_answers import COUNTS_S, FirstAnswers
from ehkafka.outputs.sender import OutputSender
from tests.kit.waiting import wait_until
from tests.outputs.sender_bench import REFUSED, Bench, Client, Producer, Report


def test_an_input_waits_until_its_output_is_safe(bench: Bench) -> None:
    """From being made to the acknowledgement, and no longer."""
    bench.add("a0 b1")
    assert bench.waiting == {0, 1}
    bench.turn()
    bench.main.client.answer()
    bench.turn()
    assert bench.waiting == {1}
    bench.main.client.answer()
    bench.turn()
    assert bench.waiting == set()
    assert bench.book.count() == 0


def lose_the_producer(bench: Bench) -> str:
    """Answer one of three, lose the producer, add one; return what the next one is given."""
    bench.add("a0 b1 a2")
    bench.turn()
    bench.main.client.answer()
    bench.turn()
    bench.main.is_lost = True
    bench.add("b3")
    bench.turn(2)
    return bench.main.client.values()


def test_a_new_producer_sends_what_is_not_safe_in_its_old_order_before_anything_new(bench: Bench) -> None:
    """Exactly what the broker has not acknowledged."""
    assert lose_the_producer(bench) == "b1 a2 b3"
    assert bench.main.faults == [True]


def test_mutant_a_new_producer_is_given_what_is_new_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the book as the truth, what the old producer had is lost."""
    monkeypatch.setattr(OutputBook, "take_all", OutputBook.take_new)
    assert lose_the_producer(bench) != "b1 a2 b3"


def refuse_the_first(bench: Bench) -> str:
    """Refuse the very first output of a producer; return what else it has by then, which the broker takes."""
    bench.add("a0 a1 b2")
    bench.turn()
    bench.main.client.answer(1, REFUSED)
    return bench.main.client.values()


def test_the_second_output_of_a_key_waits_for_its_producers_first_answer() -> None:
    """A broker takes any sequence number as the first one: what is ready by then would pass a refused one."""
    bench = Bench(at_once=False)
    assert refuse_the_first(bench) == "b2"


def test_mutant_the_second_output_of_a_key_goes_at_once() -> None:
    """It passes the refused one."""
    assert refuse_the_first(Bench()) == "a1 b2"


def test_after_the_first_answer_all_outputs_of_a_key_go_and_a_new_producer_begins_anew() -> None:
    """In their order, before later ones of the key."""
    bench = Bench(at_once=False)
    bench.add("a0 a1 b2 a3")
    bench.turn()
    assert bench.main.client.values() == "a0 b2"
    bench.add("a4")
    bench.main.client.answer()
    bench.turn(2)
    assert bench.main.client.values() == "b2 a1 a3 a4"
    bench.main.is_lost = True
    bench.turn(2)
    assert bench.main.client.values() == "a1 b2"
    bench.main.client.answer(2)
    bench.turn(2)
    assert bench.main.client.values() == "a3 a4"


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of the wall, in seconds, which a test changes."""
    now_s = [0.0]
    monkeypatch.setattr("ehkafka.outputs.sender.FirstAnswers", partial(FirstAnswers, lambda: now_s[0]))
    return now_s


def test_an_answer_of_long_ago_counts_no_more(wall: list[float]) -> None:
    """The broker may have forgotten the producer since, and take what is ready behind a refused output."""
    bench = Bench(at_once=False)
    bench.add("a0 b1")
    bench.turn()
    bench.main.client.answer(2)
    bench.turn()
    for key in ("b2", "b3"):
        wall[0] += COUNTS_S
        bench.add(key)
        bench.turn()
        bench.main.client.answer()
        bench.turn()
    bench.add("a4 a5 b6 b7")
    bench.turn()
    assert bench.main.client.values() == "a4 b6 b7"
    bench.main.client.answer()
    bench.turn(2)
    assert bench.main.client.values() == "b6 b7 a5"


def test_a_machine_that_slept_trusts_no_answer_and_no_clock(wall: list[float]) -> None:
    """One look after all that time is enough; a clock that is set back tells as little."""
    for slept_s in (2 * COUNTS_S, -2 * COUNTS_S):
        bench = Bench(at_once=False)
        bench.add("a0")
        bench.turn()
        bench.main.client.answer()
        bench.turn()
        wall[0] += slept_s
        bench.add("a1 a2")
        bench.turn()
        assert bench.main.client.values() == "a1"


@pytest.mark.parametrize("checks", [1, 2])
def test_what_was_sent_on_the_word_of_an_old_answer_goes_out_again_by_another_producer(
    wall: list[float], checks: int
) -> None:
    """A broker that was away for long may have forgotten the one that has it all in its queue."""
    bench = Bench(at_once=False)
    bench.add("a0")
    bench.turn()
    bench.main.client.answer()
    bench.add("a1 a2")
    bench.turn(2)
    assert bench.main.client.values() == "a1 a2"
    for _ in range(checks):
        wall[0] += 2 * COUNTS_S / checks
        bench.turn()
    assert bench.main.client.values() == "a1"
    assert bench.main.faults == [False]


def test_a_first_output_that_was_not_taken_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue was full, or the client refused it: nobody will answer for it."""
    bench = Bench(at_once=False)
    produce = Client.produce
    raises: list[Exception] = [BufferError(), TypeError("headers")]

    def refuses(self: Client, *message: Any, **options: Any) -> None:
        if raises and message[1] == b"a0":
            raise raises.pop(0)
        produce(self, *message, **options)

    monkeypatch.setattr(Client, "produce", refuses)
    bench.add("a0 a1")
    bench.turn()
    assert bench.main.client.values() == ""
    bench.turn(2)
    assert bench.second.client.values() == "a0"
    bench.second.client.answer()
    bench.turn(2)
    assert bench.main.client.values() == "a1"


def test_an_answer_that_does_not_say_where_its_output_is_does_not_count(bench: Bench) -> None:
    """The client has concluded it from a later answer; where that is wrong, an output would be lost."""
    bench.add("a0 b1 a2")
    bench.turn()
    client = bench.main.client
    for value, key, on_delivery in client.sent[:2]:
        on_delivery(None, Report(key, value, None))
    value, key, on_delivery = client.sent[2]
    on_delivery(None, Report(key, value, 7))
    client.sent.clear()
    bench.turn(3)
    assert bench.waiting == {0, 1, 2}
    assert bench.main.faults == [True]
    assert bench.main.client.values() == "a0 b1 a2"
    bench.main.client.answer(3)
    bench.turn()
    assert bench.waiting == set()


def end_an_epoch(bench: Bench) -> str:
    """End a partition with an output on its way; return what the next producer has."""
    other = bench.assign(1)
    bench.add("a0", other)
    bench.add("b1")
    bench.turn()
    other.ended = True
    assert bench.book.end([other])
    bench.sender._purges.append(done := threading.Event())
    bench.turn(2)
    assert done.is_set()
    return bench.main.client.values()


def test_an_epochs_end_takes_its_outputs_back_and_sends_the_others_again(bench: Bench) -> None:
    """The producer that had them is given up before the partition may be another's."""
    assert end_an_epoch(bench) == "b1"
    assert len(bench.main.clients) == 2
    assert bench.main.faults == [False]
    assert bench.waiting == {1}


def test_mutant_the_producer_keeps_what_an_ended_epoch_has_left(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old owner's output could come behind what the new one sends."""
    monkeypatch.setattr(OutputSender, "_renew", lambda _self, **_: None)
    assert end_an_epoch(bench) == "a0 b1"


def test_an_epochs_end_takes_back_what_its_records_of_a_batch_have_sent(bench: Bench) -> None:
    """What the batch as a whole has sent stays while one of its partitions is ours."""
    other, messages = bench.assign(1), [object(), object()]
    claim = Claim(None, ((bench.epoch, 0), (other, 7)), messages, 1)  # type: ignore[arg-type]
    homes = {"a0": claim.home_of(messages[0]), "b7": claim.home_of(messages[1]), "c": claim.home_of(claim)}
    assert list(homes.values()) == [0, 1, None]
    outputs = [
        Output(claim, "out", text.encode(), text[:1].encode(), None, -1, 2, home)
        for text, home in homes.items()
    ]
    bench.book.add(claim, outputs)
    bench.turn()
    bench.epoch.ended = True
    assert bench.book.end([bench.epoch])
    bench.sender._purges.append(threading.Event())
    bench.turn(2)
    assert bench.main.client.values() == "b7 c"
    assert bench.book.waiting(other) == {7}
    bench.main.client.answer(2)
    bench.turn()
    assert bench.book.waiting(other) == set()
    assert bench.book.count() == 0


def test_an_epochs_end_waits_no_longer_than_it_may(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers to what is on the wire may take long; nothing more is sent meanwhile."""
    given_up, answered = threading.Event(), threading.Event()

    def give_up(_self: Producer, _answers_s: float, _purge_s: float = 0.0) -> None:
        given_up.set()
        assert answered.wait(30.0)

    monkeypatch.setattr(Producer, "start", lambda _self: None, raising=False)
    bench.sender.start()
    bench.add("a0")
    wait_until(lambda: bench.main.client.values() == "a0", "it is sent")
    monkeypatch.setattr(Producer, "give_up", give_up)
    bench.epoch.ended = True
    bench.sender.end([bench.epoch], 0.05)
    assert given_up.wait(10.0)
    assert bench.main.client.values() == "a0"
    answered.set()
    bench.sender.stop(10.0)


def test_nothing_is_taken_of_an_epoch_that_has_ended(bench: Bench) -> None:
    """A handler that comes back late has its record fail, and nothing is sent."""
    bench.epoch.ended = True
    with pytest.raises(NotSentError, match="taken away"):
        bench.add("a0")
    assert bench.book.count() == 0
