"""One transaction after the other: what is called again, what aborts, what ends the producer."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.events import TransactionAborted
from ehkafka.outputs.batch import BATCH_BYTES_MIN
from ehkafka.transactions import loop as loop_module
from ehkafka.transactions import producer as producer_module
from tests.kit.waiting import wait_until
from tests.transactions import loop_bench
from tests.transactions.loop_bench import Bench, aborting, fatal, retriable


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "AGAIN_S", 0.0)


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
    # The client says so of each output that comes after what ended the transaction.
    code = KafkaError._STATE if call == "produce" else KafkaError.ILLEGAL_GENERATION
    bench.broker.fails = {call: [aborting(code)] * (2 if call == "produce" else 1)}
    error = bench.run(2)
    assert error is not None
    assert error.code() == code
    assert (bench.visible, bench.broker.aborted) == ("", 1)
    bench.add(2)
    assert bench.run(3) is None
    assert bench.visible == "0 1 2"
    (event,) = bench.events
    assert isinstance(event, TransactionAborted)
    assert event.outputs == 2


@pytest.mark.parametrize("call", ["begin", "produce", "offsets"])
def test_a_producer_that_ends_before_the_commit_has_committed_nothing(call: str) -> None:
    """The group is not asked; the next producer has the same id and continues."""
    bench = Bench()
    bench.add(0)
    bench.read_back = True
    bench.broker.fails = {call: [fatal(), *([fatal()] if call == "produce" else [])]}
    assert bench.run(1) is not None
    assert bench.run(1) is None
    assert bench.visible == "0"
    assert bench.producer.opened == 2


@pytest.mark.parametrize("fails", [{"commit": [fatal()]}, {"commit": [aborting()], "abort": [fatal()]}])
@pytest.mark.parametrize("was_committed", [True, False])
def test_where_it_ends_while_it_commits_the_broker_is_asked(was_committed: bool, fails: Any) -> None:
    """Only once the next producer has ended what the last one began. So, too, where the abort is not done."""
    bench = Bench()
    bench.add(0)
    bench.read_back = was_committed
    bench.broker.fails = {call: [*errors] for call, errors in fails.items()}
    assert (bench.run(1) is None) is was_committed
    assert bench.outputs.count() == (0 if was_committed else 1)
    assert bench.producer.opened == 2
    assert bench.run(2) is None
    assert bench.visible == ("" if was_committed else "0")


@pytest.mark.parametrize(
    ("call", "was_committed"), [("offsets", False), ("commit", True), ("commit", False), ("abort", False)]
)
def test_a_call_that_hangs_is_given_up_with_its_producer(call: str, was_committed: bool) -> None:
    """By then the broker has ended the transaction; where it was committing, it is asked."""
    bench = Bench(timeout_s=0.05)
    bench.add(0)
    bench.read_back = was_committed
    bench.broker.fails = {call: [retriable()] * 1_000_000}
    if call == "abort":
        bench.broker.fails["offsets"] = [aborting()]
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


def test_the_broker_is_asked_until_it_answers() -> None:
    """Neither a producer that cannot be opened yet nor a question without an answer decides anything."""
    bench = Bench()
    bench.add(0)
    bench.broker.fails = {"commit": [fatal()], "init": [None, retriable()]}
    bench.read_back = retriable()
    assert bench.run(1) is None
    assert bench.outputs.count() == 0


@pytest.mark.parametrize("call", ["offsets", "commit"])
def test_a_transaction_that_is_not_needed_any_more_is_aborted_before_it_commits(call: str) -> None:
    """One that is being committed may be done already: the broker's answer is waited for."""
    bench = Bench()
    bench.add(0)
    request = bench.request(1)

    def called(name: str) -> None:
        request.is_unwanted |= name == call

    bench.broker.on_call = called
    bench.broker.fails = {call: [retriable()]}
    bench.loop._carry_out(request)
    is_aborted = call == "offsets"
    assert (request.error is not None, bench.broker.aborted) == (is_aborted, int(is_aborted))
    assert (bench.visible, bench.outputs.count()) == (("", 1) if is_aborted else ("0", 0))


@pytest.mark.parametrize("code", [47, 48, 51, 90, 120])
def test_an_error_of_the_transaction_refuses_no_output(code: int) -> None:
    """The broker has ended it, or its coordinator moves: no output is judged for that."""
    bench = Bench()
    bench.add(0, 1)
    bench.broker.refuses, bench.broker.code = {b"0"}, code
    assert bench.run(2) is not None
    assert bench.judged == []
    bench.broker.refuses = set()
    assert bench.run(2) is None
    assert bench.visible == "0 1"


@pytest.mark.parametrize("code", [48, 51, 90, 120])
def test_a_search_that_fails_says_nothing_of_its_outputs(code: int) -> None:
    """They count as neither accepted nor refused, so no batch gets smaller for them."""
    bench = Bench()
    bench.add(0, 1)
    bench.broker.refuses, bench.broker.code = {b"0"}, KafkaError.MSG_SIZE_TOO_LARGE

    def fail_the_search(_call: str) -> None:
        if bench.broker.calls.count("begin") == 2:
            bench.broker.code = code

    bench.broker.on_call = fail_the_search
    assert bench.run(2) is not None
    assert bench.broker.calls.count("begin") == 2
    assert (bench.judged, bench.loop._batch_bytes) == ([], None)
    bench.broker.refuses = set()
    assert bench.run(2) is None
    assert bench.visible == "0 1"


def refused(bench: Bench, *values: bytes, next_offset: int = 3) -> tuple[Any, int, Any]:
    """Have outputs refused; return what the last judge was asked."""
    bench.broker.refuses = set(values)
    assert bench.run(next_offset) is not None
    assert bench.visible == ""
    return bench.judged[-1]


def test_a_refused_output_leaves_with_its_record_and_the_rest_goes() -> None:
    """What was in a batch with it is not refused, and nothing above it is committed meanwhile."""
    bench = Bench()
    bench.add(0, 1, 2)
    output, tries, answer = refused(bench, b"1")
    assert (output.value, tries) == (b"1", 1)
    assert bench.held.refusals.lowest() == {bench.epoch: 1}
    assert bench.run(1) is None
    assert bench.visible == "0"
    answer(None)
    assert bench.held.refusals.lowest() == {}
    assert bench.run(3) is None
    assert bench.visible == "0 2"
    assert bench.outputs.count() == 0


def test_a_refused_output_is_tried_again_when_its_judge_says_so() -> None:
    """It may be taken then; else it is the next attempt. Alone, so that it costs no search."""
    bench = Bench()
    bench.add(0, 1, 2)
    _, _, answer = refused(bench, b"1")
    answer(5.0)
    assert bench.held.refusals.lowest() == {bench.epoch: 1}
    bench.now_s = 6.0
    assert bench.held.refusals.lowest() == {}
    aborted = bench.broker.aborted
    output, tries, answer = refused(bench, b"1")
    assert (output.value, tries) == (b"1", 2)
    assert bench.broker.aborted == aborted + 1
    answer(1.0)
    bench.now_s, bench.broker.refuses = 8.0, set()
    assert bench.run(3) is None
    assert bench.visible == "0 1 2"


def test_an_undecided_output_is_not_sent_by_positions_from_before_its_refusal() -> None:
    """As of a revoke's commit that was waiting."""
    bench = Bench()
    bench.add(0, 1, 2)
    refused(bench, b"1")
    begun = bench.broker.calls.count("begin")
    assert bench.run(3) is not None
    assert bench.broker.calls.count("begin") == begun


def test_many_that_are_too_large_cost_one_search() -> None:
    """What is as large as one that was refused alone goes the same way at once."""
    bench = Bench()
    large = [b"too large %d" % number for number in range(20)]
    for offset, value in enumerate(large):
        bench.put(offset, b"%d" % offset, value)
    bench.answers = [None] * 20
    bench.broker.refuses, bench.broker.code = set(large), KafkaError.MSG_SIZE_TOO_LARGE
    assert bench.run(20) is None
    assert len(bench.judged) == 20
    assert bench.visible.split() == [str(n) for n in range(20)]
    assert bench.broker.aborted <= 3


def test_a_topic_that_takes_smaller_batches_gets_smaller_ones() -> None:
    """No output is refused alone: the whole batch was too large, and it goes in parts."""
    bench = Bench()
    for offset in range(90):
        bench.put(offset, b"%d" % offset + b"-" * 998)
    bench.broker.batch_max = 50_000
    assert bench.run(90) is None
    assert len(bench.broker.visible) == 90
    # All of it passes in parts, in a transaction that is aborted as well.
    assert (bench.judged, bench.broker.aborted) == ([], 2)
    assert BATCH_BYTES_MIN < bench.producer.limit["batch.size"] <= 50_000
    opened = bench.producer.opened
    bench.add(90)
    assert bench.run(91) is None
    assert bench.producer.opened == opened == 3


def test_what_the_client_itself_refuses_is_refused_without_a_search() -> None:
    """It says which one it is about."""
    bench = Bench()
    bench.add(0)
    bench.put(1, b"1", headers={"wrong": object()})
    bench.answers = [None]
    assert bench.run(2) is None
    assert [output.value for output, *_ in bench.judged] == [b"1"]
    assert (bench.visible, bench.broker.aborted) == ("0", 1)


def test_no_transaction_begins_with_the_positions_of_an_epoch_that_is_over() -> None:
    """Its outputs are dropped by then: the commit would be there without them."""
    bench = Bench()
    bench.add(0, 1)
    request = bench.request(2)
    bench.epoch.ended = True
    bench.held.end([bench.epoch])
    bench.loop._carry_out(request)
    assert request.error is not None
    assert (bench.broker.committed, bench.visible) == ([], "")


@pytest.mark.parametrize("answer", [None, 0.0])
def test_one_that_is_aborted_does_not_begin_anew_once_its_epoch_is_over(answer: float | None) -> None:
    """Something in it is refused, and the epoch ends while the broker is asked for the abort."""
    bench = Bench()
    bench.add(0, 1, 2)
    bench.broker.refuses = {b"1"}
    bench.answers = [answer]

    def end(name: str) -> None:
        if name == "abort":
            bench.epoch.ended = True
            bench.held.end([bench.epoch])

    bench.broker.on_call = end
    assert bench.run(3) is not None
    assert (bench.broker.committed, bench.visible) == ([], "")
    assert bench.outputs.count() == 0


def test_the_refusals_of_an_epoch_end_with_it() -> None:
    """Nothing waits for their judges."""
    bench = Bench()
    bench.add(0, 1, 2)
    _, _, answer = refused(bench, b"1")
    bench.epoch.ended = True
    bench.held.end([bench.epoch])
    assert bench.held.refusals.lowest() == {}
    answer(5.0)
    assert bench.held.refusals.lowest() == {}
    assert bench.outputs.count() == 0


@pytest.mark.parametrize("call", ["begin", "offsets", "commit", "abort", "init"])
def test_a_stop_ends_though_a_call_never_returns(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a transaction hears that there is none, and the thread ends soon after the stop."""
    monkeypatch.setattr(loop_module, "CALL_S", 0.1)
    bench, forever = Bench(), threading.Event()
    bench.loop.start()
    bench.add(0)
    bench.broker.fails = {"offsets": [aborting()] if call == "abort" else []}
    if call == "init":
        bench.producer.is_disturbed = True
        monkeypatch.setattr(
            type(bench.producer),
            "start",
            lambda its, _bytes, reported, is_over: producer_module.TransactionalProducer._init(
                loop_bench.Client(its._broker, reported, {}),  # type: ignore[arg-type]
                is_over,
            ),
        )
    bench.broker.on_call = lambda name: name == call and forever.wait(30.0)
    request = bench.request(1)
    bench.loop.submit(request)
    wait_until(lambda: bench.broker.calls.count(call) > (call == "init"))
    bench.loop.stop(0.2)
    assert request.done.wait(3.0)
    assert request.error is not None
    wait_until(lambda: not bench.loop.is_running, timeout_s=3.0)
    assert bench.fatal == []
    forever.set()
