"""What a call sends is put once it has returned, in its order; of a call that fails nothing is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.handlers.sending import calling
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.call import Call
from ehkafka.outputs.encoding import FRAME_BYTES
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.output import outputs_of
from ehkafka.outputs.send import Send
from ehkafka.outputs.unacknowledged import NotSentError, Unacknowledged
from ehkafka.records import Record, TopicPartition
from ehkafka.records.deferral import DEFERRED
from ehkafka.records.record import sending_type
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


class Way:
    """A handler's way out, one record, and what is put."""

    def __init__(self, **options: Any) -> None:
        self.outputs = Unacknowledged()
        self.outlet = Outlet(
            self.outputs, handler="h", topics=("out", "other"), bytes_max=1_000, judge=print, **options
        )
        self.epoch = Epoch(TopicPartition("t", 0), 1, {})
        self.message: Any = SimulatedMessage("t", 0, 7, b"k")
        self.record = sending_type(Record, self.outlet)(self.message)

    def call(self, function: Callable[[Any], object]) -> None:
        """Call a handler's function for the record."""
        invoke = calling(function, self.outlet, lambda _message, _number: self.record)
        invoke((self.message, b"k", 1, self.epoch), 1)

    @property
    def values(self) -> list[bytes | None]:
        """What was put, in its order."""
        return [output.value for output in outputs_of(self.outputs.added)]

    @property
    def is_over(self) -> bool:
        """Whether no call is known any more."""
        return not (self.outlet.begun or self.outlet.calls)


@pytest.fixture
def way() -> Way:
    """Return a way out."""
    return Way()


@pytest.mark.parametrize(
    ("result", "sent"),
    [(None, []), (b"a", [b"a"]), ("a", [b"a"]), ({"n": 1}, [b'{"n":1}']), (b"", [b""])],
    ids=str,
)
def test_one_value_or_none(
    way: Way, result: object, sent: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most calls do that: no `Call` is made for it, and the record waits for its output all the same."""
    monkeypatch.setattr(Call, "__init__", None)
    way.call(lambda _record: result)
    assert way.values == sent
    assert way.outputs.lowest() == ({way.epoch: 7} if sent else {})
    assert way.is_over


def test_what_is_sent_during_a_call_is_put_when_it_returns(way: Way) -> None:
    """In its order, and before what the call returns."""
    meanwhile: list[Any] = []

    def handle(record: Any) -> object:
        record.send(b"first")
        record.send(b"second", topic="other")
        meanwhile.extend(way.values)
        return b"third"

    way.call(handle)
    assert meanwhile == []
    assert way.values == [b"first", b"second", b"third"]
    assert [output.topic for output in outputs_of(way.outputs.added)] == ["out", "other", "out"]
    assert way.is_over
    way.call(lambda _record: [b"fourth", Send(b"fifth", key=None)])
    assert way.values[3:] == [b"fourth", b"fifth"]
    assert way.is_over


def test_a_call_that_fails_sends_nothing(way: Way) -> None:
    """With and without an output before."""

    def handle(record: Any, *, sends: bool) -> None:
        if sends:
            record.send(b"a")
        raise ValueError("no")

    for sends in (False, True):
        with pytest.raises(ValueError, match="no"):
            way.call(lambda record, sends=sends: handle(record, sends=sends))
        assert way.values == []
        assert way.is_over
    way.call(lambda _record: b"b")
    assert way.values == [b"b"]


def test_a_call_whose_partition_was_taken_away_fails(way: Way) -> None:
    """Another member has the record; what is sent after that would come behind its outputs."""
    for send in (lambda record: record.send(b"a"), lambda _record: b"a"):

        def handle(record: Any, send: Any = send) -> Any:
            way.epoch.ended = True
            return send(record)

        with pytest.raises(NotSentError, match=r"t\[0\]@7 are not sent: the partition was taken away"):
            way.call(handle)
        way.epoch.ended = False
        assert way.values == []
        assert way.is_over


@pytest.mark.parametrize(
    ("result", "error"),
    [(b"x" * 2_000, ValueError), (object(), TypeError), ([Send(b"a", topic="nowhere")], ValueError)],
    ids=["too large", "no codec", "no topic of its own"],
)
def test_what_cannot_be_sent_fails_the_attempt(way: Way, result: object, error: type[Exception]) -> None:
    """Nothing is put, and the call is over."""
    with pytest.raises(error):
        way.call(lambda _record: result)
    assert way.values == []
    assert way.is_over


def test_a_message_may_be_as_large_as_the_limit_says(way: Way) -> None:
    """With its key, and what it takes in addition to both: not a byte more."""
    largest = 1_000 - FRAME_BYTES - len(b"k")
    way.call(lambda _record: b"x" * largest)
    with pytest.raises(ValueError, match="bytes"):
        way.call(lambda _record: b"x" * (largest + 1))
    assert way.values == [b"x" * largest]


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_what_a_deferred_record_sends_is_put_once_it_has_finished(way: Way, error: Exception | None) -> None:
    """Its call has returned, its attempt has not ended; where it fails, nothing is put."""
    tokens: list[Any] = []

    def handle(record: Any) -> bytes:
        tokens.append(record.defer())
        return b"a"

    try:
        way.call(handle)
        way.record.send(b"b")
    finally:
        DEFERRED.clear()
    assert way.values == []
    # `PendingAnswers` does this.
    tokens[0].finish() if error is None else tokens[0].fail(error)
    way.outlet.answered(way.message, error)
    with pytest.raises(RuntimeError, match="is finished"):
        way.record.send(b"c")
    assert way.values == ([b"a", b"b"] if error is None else [])
    assert way.is_over


def send_as_the_call_returns(way: Way, monkeypatch: pytest.MonkeyPatch, slow: Any) -> list[str]:
    """Let a thread of the handler's send while its call returns; return what went wrong, and where.

    `slow` is the owner and the name of what the call returns within.
    """
    sending, returned, wrong = threading.Event(), threading.Event(), []
    whole = getattr(*slow)

    def slowly(*what: Any) -> Any:
        if threading.current_thread() is thread:
            sending.set()
            # The call returns meanwhile, or waits for us.
            returned.wait(0.2)
        return whole(*what)

    def send() -> None:
        try:
            way.record.send(b"late")
        except RuntimeError as error:
            wrong.append(f"send: {error}")

    thread = threading.Thread(target=send, daemon=True)

    def handle(_record: Any) -> bytes:
        thread.start()
        assert sending.wait(30.0)
        return b"returned"

    monkeypatch.setattr(*slow, slowly)
    try:
        way.call(handle)
    except RuntimeError as error:
        wrong.append(f"call: {error}")
    returned.set()
    thread.join(30.0)
    return wrong


@pytest.mark.parametrize("what", ["begin", "add"])
def test_a_thread_that_sends_as_the_call_returns_meets_it_before_or_behind(
    way: Way, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is sent for the record, or it hears of it; the call itself never fails for it."""
    slow = {"begin": (Outlet, "begin"), "add": (Call, "add")}[what]
    wrong = send_as_the_call_returns(way, monkeypatch, slow)
    assert [one.split(":")[0] for one in wrong] in ([], ["send"])
    assert sorted(way.values, key=str) == sorted([b"returned"] + [b"late"] * (not wrong), key=str)
    assert way.is_over


def test_mutant_who_makes_a_call_takes_the_entry_away_first(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call finds nothing of itself, and the record would fail though its handler has returned."""

    def naive(self: Outlet, message: Any) -> Any:
        entry = self.begun.pop(id(message), None)
        return self.calls.get(id(message)) if entry is None else self.begin(entry)

    monkeypatch.setattr(Outlet, "_call_of", naive)
    wrong = send_as_the_call_returns(way, monkeypatch, (Outlet, "begin"))
    assert any(one.startswith("call:") for one in wrong)
