"""One transaction after the other: what is called again, what aborts, what ends the producer."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.errors import FencedError
from ehkafka.events import TransactionAborted, TransactionProducerReplaced
from ehkafka.transactions import loop as loop_module
from ehkafka.transactions import trial as trial_module
from tests.kit.waiting import wait_until
from tests.transactions.loop_bench import Bench, aborting, fatal, retriable


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "AGAIN_S", 0.0)


def test_outputs_go_with_the_offsets_of_their_records() -> None:
    """What is not covered waits for a later one."""
    bench = Bench()
    bench.add(0, 1, 2, 3)
    assert bench.run(1, [(2, 3)]) is None
    assert bench.visible == "0 2"
    assert bench.run(4) is None
    assert bench.visible == "0 2 1 3"
    assert bench.broker.committed == [{(0, 1)}, {(0, 4)}]
    assert bench.book.count() == 0


@pytest.mark.parametrize("call", ["begin", "offsets", "commit", "abort"])
def test_a_call_that_times_out_goes_on_where_it_was(call: str) -> None:
    """It is neither done nor over, so it is made again and nothing else meanwhile."""
    bench = Bench()
    bench.add(0, 1)
    bench.broker.fails = {call: [retriable(), retriable()]}
    if call == "abort":
        bench.broker.fails["offsets"] = [aborting()]
        assert bench.run(2) is not None
    assert bench.run(2) is None
    assert bench.visible == "0 1"
    assert bench.broker.calls.count(call) >= 3


@pytest.mark.parametrize("call", ["begin", "produce", "offsets", "commit"])
def test_what_is_aborted_goes_again_in_order(call: str) -> None:
    """Nothing of it counts, and no handler is called for it."""
    bench = Bench()
    bench.add(0, 1)
    bench.broker.fails = {call: [aborting()]}
    error = bench.run(2)
    assert error is not None
    assert error.code() == KafkaError.ILLEGAL_GENERATION
    assert (bench.visible, bench.broker.aborted) == ("", 1)
    bench.add(2)
    assert bench.run(3) is None
    assert bench.visible == "0 1 2"
    (event,) = bench.events
    assert isinstance(event, TransactionAborted)
    assert event.outputs == 2


@pytest.mark.parametrize("call", ["begin", "produce", "offsets"])
def test_a_producer_that_ends_before_the_commit_has_committed_nothing(call: str) -> None:
    """Nobody is asked; the next one has the same id and goes on."""
    bench = Bench()
    bench.add(0)
    bench.read_back = True
    bench.broker.fails = {call: [fatal()]}
    assert bench.run(1) is not None
    assert bench.run(1) is None
    assert bench.visible == "0"
    assert bench.producer.opened == 2


@pytest.mark.parametrize("was_committed", [True, False])
def test_where_it_ends_while_it_commits_the_broker_is_asked(was_committed: bool) -> None:
    """Only once the next producer has ended what the last one began."""
    bench = Bench()
    bench.add(0)
    bench.read_back = was_committed
    bench.broker.fails = {"commit": [fatal()]}
    assert (bench.run(1) is None) is was_committed
    assert bench.book.count() == (0 if was_committed else 1)
    assert bench.producer.opened == 2
    assert bench.run(2) is None
    assert bench.visible == ("" if was_committed else "0")


@pytest.mark.parametrize(("call", "was_committed"), [("offsets", False), ("commit", True), ("commit", False)])
def test_a_call_that_hangs_is_given_up_with_its_producer(call: str, was_committed: bool) -> None:
    """By then the broker has ended the transaction; where it was committing, it is asked."""
    bench = Bench(timeout_s=0.05)
    bench.add(0)
    bench.read_back = was_committed
    bench.broker.fails = {call: [retriable()] * 1_000_000}
    assert (bench.run(1) is None) is was_committed
    assert bench.producer.opened == (2 if call == "commit" else 1)
    bench.broker.fails = {}
    assert bench.run(2) is None
    assert bench.visible == ("" if was_committed else "0")


@pytest.mark.parametrize("call", ["offsets", "commit", "abort"])
def test_a_call_that_never_returns_is_left_alone(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its client: the next one goes on."""
    monkeypatch.setattr(loop_module, "HANGS_S", 0.05)
    bench, forever = Bench(), threading.Event()
    bench.add(0)
    bench.broker.fails = {"offsets": [aborting()]} if call == "abort" else {}
    bench.broker.on_call = lambda name: name == call and forever.wait(30.0)
    error = bench.run(1)
    assert error is not None
    bench.broker.on_call = lambda _name: None
    assert bench.run(1) is None
    assert bench.visible == "0"
    assert bench.producer.opened == 2
    forever.set()


def test_a_trial_that_never_returns_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known to be refused then, and the next transaction tries once more."""
    monkeypatch.setattr(trial_module, "HANGS_S", 0.05)
    bench, forever = Bench(), threading.Event()
    bench.add(0)
    bench.broker.refuses = {b"0"}
    # The first abort is that of the transaction itself.
    bench.broker.on_call = lambda name: (
        name == "abort" and bench.broker.calls.count(name) == 2 and forever.wait(30.0)
    )
    assert bench.run(1) is not None
    assert bench.judged == []
    assert bench.trial.client is None
    forever.set()
    bench.broker.on_call = lambda _name: None
    assert bench.run(1) is not None
    assert [output.value for output, *_ in bench.judged] == [b"0"]


def test_a_producer_that_has_lost_brokers_has_no_further_transaction() -> None:
    """It may wait for ever for a coordinator that it remembers."""
    bench = Bench()
    bench.add(0, 1)
    assert bench.run(1) is None
    bench.producer.has_lost_brokers = True
    assert bench.run(2) is None
    assert (bench.visible, bench.producer.opened) == ("0 1", 2)


def test_an_abort_that_hangs_is_given_up_with_its_producer() -> None:
    """The next one's id has the broker do it."""
    bench = Bench(timeout_s=0.05)
    bench.add(0)
    bench.broker.fails = {"offsets": [aborting()], "abort": [retriable()] * 1_000_000}
    assert bench.run(1) is not None
    assert bench.run(1) is None
    assert (bench.visible, bench.producer.opened) == ("0", 2)


def test_the_broker_is_asked_until_it_answers() -> None:
    """Neither a producer that cannot be opened yet nor a question without an answer decides anything."""
    bench = Bench()
    bench.add(0)
    bench.broker.fails = {"commit": [fatal()], "init": [None, retriable()]}
    bench.read_back = retriable()
    assert bench.run(1) is None
    assert bench.book.count() == 0


def test_mutant_an_unknown_outcome_counts_as_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then what was committed is sent once more."""
    monkeypatch.setattr(loop_module.TransactionLoop, "_resolve", lambda *_: False)
    bench = Bench()
    bench.add(0)
    bench.read_back = True
    bench.broker.fails = {"commit": [fatal()]}
    assert bench.run(1) is not None
    assert bench.run(2) is None
    assert bench.visible == "0"


def test_nobody_wants_it_any_more() -> None:
    """It is aborted before it commits."""
    bench = Bench()
    bench.add(0)
    request = bench.request(1)
    bench.broker.on_call = lambda name: setattr(request, "is_unwanted", name == "offsets")
    bench.broker.fails = {"offsets": [retriable()]}
    bench.loop._carry_out(request)
    assert request.error is not None
    assert (bench.visible, bench.broker.aborted, bench.book.count()) == ("", 1, 1)


def test_what_is_being_committed_is_not_taken_back() -> None:
    """The broker may have done it already: its word is waited for."""
    bench = Bench()
    bench.add(0)
    request = bench.request(1)
    bench.broker.on_call = lambda name: name == "commit" and setattr(request, "is_unwanted", True)
    bench.broker.fails = {"commit": [retriable()]}
    bench.loop._carry_out(request)
    assert request.error is None
    assert bench.visible == "0"


def test_a_shared_id_that_another_process_has_ends_the_app() -> None:
    """One of this process alone is fenced for a transaction that took too long: the next producer goes on."""
    shared, own = Bench(is_id_shared=True), Bench()
    for bench in (shared, own):
        bench.add(0)
        bench.broker.fails = {"offsets": [fatal()]}
        assert bench.run(1) is not None
    assert isinstance(shared.fatal[0], FencedError)
    opened = shared.producer.opened
    assert shared.run(1) is not None
    assert shared.producer.opened == opened, "one more would fence the other process in turn"
    assert own.fatal == []
    assert isinstance(own.events[0], TransactionProducerReplaced)


def refused(bench: Bench, value: bytes) -> tuple[Any, int, Any]:
    """Have an output refused; return what its judge was asked."""
    bench.broker.refuses = {value}
    assert bench.run(3) is not None
    assert bench.visible == ""
    return bench.judged[-1]


def test_a_refused_output_leaves_with_its_record_and_the_rest_goes() -> None:
    """What was in a batch with it is not refused, and nothing above it is committed meanwhile."""
    bench = Bench()
    bench.add(0, 1, 2)
    output, tries, answer = refused(bench, b"1")
    assert (output.value, tries) == (b"1", 1)
    assert bench.refusals.lowest(bench.epoch) == 1
    assert bench.run(1) is None
    assert bench.visible == "0"
    answer(None)
    assert bench.refusals.lowest(bench.epoch) is None
    assert bench.run(3) is None
    assert bench.visible == "0 2"
    assert bench.book.count() == 0


def test_a_refused_output_is_tried_again_when_its_judge_says_so() -> None:
    """It may be taken then; else it is the next attempt."""
    bench = Bench()
    bench.add(0, 1, 2)
    _, _, answer = refused(bench, b"1")
    answer(5.0)
    assert bench.refusals.lowest(bench.epoch) == 1
    bench.now_s = 6.0
    assert bench.refusals.lowest(bench.epoch) is None
    assert bench.run(3) is not None
    output, tries, answer = bench.judged[-1]
    assert (output.value, tries) == (b"1", 2)
    answer(1.0)
    bench.now_s, bench.broker.refuses = 8.0, set()
    assert bench.run(3) is None
    assert bench.visible == "0 1 2"
    assert not bench.refusals.has_any


def test_several_that_are_refused_are_all_found() -> None:
    """The first one ends its trial; the rest is tried in the next."""
    bench = Bench()
    bench.add(0, 1, 2, 3)
    bench.add_claimed(4, b"4a", b"4b")
    bench.broker.refuses = {b"1", b"3"}
    assert bench.run(5) is not None
    assert sorted(output.value for output, *_ in bench.judged) == [b"1", b"3"]
    assert bench.visible == ""


def test_what_is_like_a_refused_output_is_tried_at_once() -> None:
    """Of many that are too large each would cost a transaction of its own."""
    bench = Bench()
    for offset in range(0, 20, 2):
        bench.add(offset)
        bench.add_single(offset + 1, b"too large %d" % offset, headers=[("a", b"b")])
    bench.broker.refuses = {b"too large %d" % offset for offset in range(0, 20, 2)}
    assert bench.run(20) is not None
    assert len(bench.judged) == 10


@pytest.mark.parametrize("was_committed", [True, False])
def test_an_abort_that_is_not_done_after_a_commit_was_asked_for_says_nothing(was_committed: bool) -> None:
    """The broker is asked: it may have committed."""
    bench = Bench()
    bench.add(0)
    bench.read_back = was_committed
    bench.broker.fails = {"commit": [aborting()], "abort": [fatal()]}
    assert (bench.run(1) is None) is was_committed
    assert bench.book.count() == (0 if was_committed else 1)


def test_the_refusals_of_an_epoch_end_with_it() -> None:
    """Nobody waits for their judges."""
    bench = Bench()
    bench.add(0, 1, 2)
    _, _, answer = refused(bench, b"1")
    bench.refusals.end({bench.epoch})
    answer(None)
    assert bench.refusals.lowest(bench.epoch) is None
    assert not bench.refusals.has_any


def test_who_stops_it_waits_for_no_transaction_that_nobody_wants() -> None:
    """Its thread ends, and whoever waits for a transaction hears that there is none."""
    bench = Bench()
    bench.loop.start()
    bench.broker.fails = {"offsets": [retriable()] * 100_000}
    request = bench.request(1)
    bench.loop.submit(request)
    wait_until(lambda: "offsets" in bench.broker.calls)
    bench.loop.stop(5.0)
    assert request.done.wait(5.0)
    assert request.error is not None
    assert not bench.loop.is_running
    assert bench.broker.aborted == 1
