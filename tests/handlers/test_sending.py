"""The short way of a call with outputs: no claim is made for what most calls do, and nothing else differs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from ehkafka.outputs.book import OutputBook
from ehkafka.outputs.claim import SingleOutput

from ehkafka.handlers.sending import calling
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.encoding import FRAME_BYTES
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.send import Send
from ehkafka.records import Record, TopicPartition
from ehkafka.records.deferral import DEFERRED
from ehkafka.records.record import sending_type
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


class Way:
    """A handler's way out, one record, and what is in the book."""

    def __init__(self) -> None:
        self.book = OutputBook()
        self.outlet = Outlet(self.book, handler="h", topics=("out", "other"), bytes_max=1_000)
        self.epoch = Epoch(TopicPartition("t", 0), 1, {})
        self.message: Any = SimulatedMessage("t", 0, 7, b"k")
        self.record = sending_type(Record, self.outlet)(self.message)

    def call(self, function: Callable[[Any], object]) -> None:
        """Call a handler's function for the record."""
        invoke = calling(function, self.outlet, lambda _message: self.record, lambda _entry, _number: None)
        invoke((self.message, b"k", 1, self.epoch), 1)

    @property
    def values(self) -> list[bytes | None]:
        """What was sent, in its order."""
        return [output.value for output in self.book.take_all()]

    @property
    def is_over(self) -> bool:
        """Whether no call is known any more."""
        return not (self.outlet.begun or self.outlet.open_calls)


@pytest.fixture
def way() -> Way:
    """Return a way out."""
    return Way()


@pytest.mark.parametrize(
    ("result", "sent"),
    [(None, []), (b"a", [b"a"]), ("a", [b"a"]), ({"n": 1}, [b'{"n":1}']), (b"", [b""])],
    ids=str,
)
def test_one_value_or_none_needs_no_claim(way: Way, result: object, sent: list[bytes]) -> None:
    """The record waits for it all the same."""
    way.call(lambda _record: result)
    assert way.values == sent
    assert all(type(output) is SingleOutput for output in way.book.take_all())
    assert way.book.waiting(way.epoch) == ({7} if sent else set())
    assert way.is_over


def test_a_claim_that_is_asked_for_later_says_whose_output_it_is(way: Way) -> None:
    """A refused output's rules, its letter and its report ask."""
    way.call(lambda _record: b"a")
    (output,) = way.book.take_all()
    claim = output.claim
    assert (claim.inputs, claim.messages, claim.outlet) == (((way.epoch, 7),), way.message, way.outlet)
    assert (claim.posted, claim.acknowledged, claim.is_over, claim.attempt) == (1, 0, True, 1)
    assert claim.where == output.where  # type: ignore[attr-defined]
    assert output.claim is claim


def test_several_ways_of_one_call_keep_their_order(way: Way) -> None:
    """What is sent during the call goes before what it returns."""

    def handle(record: Any) -> object:
        record.send(b"first")
        record.send(b"second", topic="other")
        return b"third"

    way.call(handle)
    assert way.values == [b"first", b"second", b"third"]
    assert len({id(output.claim) for output in way.book.take_all()}) == 1
    assert way.is_over
    way.call(lambda _record: [b"fourth", Send(b"fifth", key=None)])
    assert way.values[3:] == [b"fourth", b"fifth"]
    assert way.is_over


def test_a_call_that_fails_leaves_nothing_open_and_says_what_it_had_sent(way: Way) -> None:
    """With and without an output before."""

    def handle(record: Any, *, sends: bool) -> None:
        if sends:
            record.send(b"a")
        raise ValueError("no")

    for sends in (False, True):
        with pytest.raises(ValueError, match="no"):
            way.call(lambda record, sends=sends: handle(record, sends=sends))
        assert way.is_over
        assert way.outlet.in_vain.counts(way.epoch, way.message) == (int(sends), 0)


@pytest.mark.parametrize(
    ("result", "error"),
    [(b"x" * 2_000, ValueError), (object(), TypeError), ([Send(b"a", topic="nowhere")], ValueError)],
    ids=["too large", "no codec", "no topic of its own"],
)
def test_what_cannot_be_sent_fails_the_attempt(way: Way, result: object, error: type[Exception]) -> None:
    """Nothing is in the book, and the call is over."""
    with pytest.raises(error):
        way.call(lambda _record: result)
    assert way.values == []
    assert way.is_over


def test_a_message_may_be_as_large_as_the_limit_says(way: Way) -> None:
    """With its key, and what it takes beside both: not a byte more."""
    largest = 1_000 - FRAME_BYTES - len(b"k")
    way.call(lambda _record: b"x" * largest)
    with pytest.raises(ValueError, match="bytes"):
        way.call(lambda _record: b"x" * (largest + 1))
    assert way.values == [b"x" * largest]


def test_nothing_is_sent_for_a_record_whose_call_has_returned(way: Way) -> None:
    """Its outcome stands."""
    way.call(lambda _record: b"a")
    with pytest.raises(RuntimeError, match="has its outcome"):
        way.record.send(b"b")
    assert way.values == [b"a"]


def test_a_deferred_record_may_send_until_it_is_answered(way: Way) -> None:
    """Its call has returned, its attempt has not ended."""
    tokens: list[Any] = []
    try:
        way.call(lambda record: tokens.append(record.defer()))
        way.record.send(b"a")
    finally:
        DEFERRED.clear()
    tokens[0].finish()
    with pytest.raises(RuntimeError, match="has its outcome"):
        way.record.send(b"b")
    assert way.values == [b"a"]


def send_as_the_call_returns(way: Way) -> list[str]:
    """Let a thread of the handler's send while its call returns; return what went wrong, and where."""
    begin, making, wrong = way.outlet.begin, threading.Event(), []

    def slow_begin(*what: Any) -> Any:
        making.set()
        # The call returns meanwhile, or waits for us.
        returned.wait(0.2)
        return begin(*what)

    way.outlet.begin = slow_begin  # type: ignore[method-assign]
    returned = threading.Event()

    def send() -> None:
        try:
            way.record.send(b"late")
        except RuntimeError as error:
            wrong.append(f"send: {error}")

    thread = threading.Thread(target=send, daemon=True)

    def handle(_record: Any) -> bytes:
        thread.start()
        assert making.wait(30.0)
        return b"returned"

    try:
        way.call(handle)
    except RuntimeError as error:
        wrong.append(f"call: {error}")
    returned.set()
    thread.join(30.0)
    return wrong


def test_a_thread_that_sends_as_the_call_returns_meets_it_before_or_behind(way: Way) -> None:
    """Its output is sent for the record, or it hears of it; the call itself never fails for it."""
    wrong = send_as_the_call_returns(way)
    assert [one.split(":")[0] for one in wrong] in ([], ["send"])
    assert sorted(way.values, key=str) == sorted([b"returned"] + [b"late"] * (not wrong), key=str)
    assert way.is_over


def test_mutant_who_makes_a_claim_takes_the_call_away_first(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call finds nothing of itself, and the record would fail though its handler has returned."""

    def naive(self: Outlet, message: Any) -> Any:
        epoch = self.begun.pop(id(message), None)
        return self.open_calls.get(id(message)) if epoch is None else self.begin(epoch, message, 1)

    monkeypatch.setattr(Outlet, "_open_claim", naive)
    assert any(one.startswith("call:") for one in send_as_the_call_returns(way))
