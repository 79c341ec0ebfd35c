"""Handlers of payloads in chunks: nothing is made for them but the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.handlers.arguments import payload_of
from ehkafka.handlers.chunk_call import make_run_chunk
from ehkafka.handlers.spec import HandlerSpec
from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.order import KeyReader
from ehkafka.records import Record, TopicPartition
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


class Counted(Record):
    """A record that is counted."""

    made = 0

    def __init__(self, message: Any, attempt: int = 1) -> None:
        type(self).made += 1
        super().__init__(message, attempt)


def run(
    function: Callable[..., Any], *values: bytes | None, middleware: Any = (), **options: Any
) -> list[int]:
    """Run a chunk of these values; return the offsets that it still has."""
    Counted.made = 0
    spec = HandlerSpec(topics=("t",), function=function, payload=payload_of(function, **options))
    call = make_run_chunk(spec, middleware, None, Counted, KeyReader())
    assignment = Assignment(TopicPartition("t", 0), 1)
    if spec.is_class:
        assignment.context = function()  # type: ignore[call-arg]
    chunk = Chunk(
        assignment, [SimulatedMessage("t", 0, n, b"k", one) for n, one in enumerate(values)], 0, None
    )
    chunk.line_up()
    assert chunk.iterator is not None
    try:
        call(chunk)
    finally:
        run.left = [message.offset() for message in chunk.iterator]  # type: ignore[attr-defined]
    return run.left  # type: ignore[attr-defined, no-any-return]


def test_values_come_in_order_and_no_record_is_made() -> None:
    """For functions and classes; with the record or in middleware one is."""
    seen: list[Any] = []

    def handle(value: dict[str, int]) -> None:
        seen.append(value["n"])

    class Class:
        def process(self, value: dict[str, int]) -> None:
            seen.append(value["n"])

    def both(record: ehkafka.Record, value: dict[str, int]) -> None:
        seen.append((record.offset(), value["n"]))

    values = [b'{"n": %d}' % n for n in range(3)]
    assert run(handle, *values) == []
    assert run(Class, *values) == []
    assert Counted.made == 0
    assert run(both, *values) == []
    assert Counted.made == 1
    assert run(handle, *values, middleware=[lambda record, call_next: call_next(record)]) == []
    assert Counted.made == 1
    assert seen == [*range(3), *range(3), (0, 0), (1, 1), (2, 2), *range(3)]


@pytest.mark.parametrize(
    ("value", "words"), [(b"x", "does not fit dict: it is no JSON"), (None, "^no value$")]
)
def test_what_does_not_fit_ends_the_run_at_its_record(value: bytes | None, words: str) -> None:
    """The worker gives it a lane; those behind it have not started, and it was not handled."""
    seen: list[Any] = []

    def handle(payload: dict) -> None:  # type: ignore[type-arg]
        seen.append(payload)

    with pytest.raises(ehkafka.RejectRecord, match=words):
        run(handle, b"{}", value, b"{}")
    assert seen == [{}]
    assert run.left == [2]  # type: ignore[attr-defined]


def test_a_tombstone_that_is_wanted_is_none() -> None:
    """And is not given to the decoder."""
    seen: list[Any] = []

    def handle(payload: dict | None) -> None:  # type: ignore[type-arg]
        seen.append(payload)

    assert run(handle, b"{}", None) == []
    assert seen == [{}, None]


def test_what_nobody_runs_is_a_failure() -> None:
    """As with records; another error of a decoder's stays what it is."""

    def handle(payload: bytes) -> Any:
        return (n for n in range(len(payload)))

    def down(_value: bytes) -> None:
        raise ConnectionError("down")

    with pytest.raises(TypeError, match="nobody runs"):
        run(handle, b"x")
    with pytest.raises(ConnectionError, match="down"):
        run(handle, b"x", decoder=down)
