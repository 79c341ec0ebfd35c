"""Which handlers may run in chunks, and how they are called then: records, results, history, deferral."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.handlers.batch import BatchSpec
from ehkafka.handlers.chunk_call import make_run_chunk, may_express
from ehkafka.handlers.spec import HandlerSpec
from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.order import KeyReader, by_key, by_partition, by_topic_partition, unordered
from ehkafka.records import Record, TopicPartition
from ehkafka.records.deferral import DEFERRED
from ehkafka.workers.processes.option import Processes
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


def spec_of(function: Any, **options: Any) -> HandlerSpec:
    """Return a handler that wants chunks."""
    return HandlerSpec(topics=("t",), function=function, **{"express": True, **options})


def plain(_record: Any) -> None:
    """Handle a record."""


async def later(_record: Any) -> None:
    """Handle a record some time."""
    await asyncio.sleep(0)


def by_length(record: Any) -> int:
    """Order by what is no key of its own."""
    return len(record.key())


@pytest.mark.parametrize("order_by", [by_key, by_partition, by_topic_partition, unordered, by_length])
def test_plain_functions_may_whatever_their_order(order_by: Any) -> None:
    """Named orders are read late, a user's function is asked as the records come."""
    assert may_express(spec_of(plain, order_by=order_by))
    in_class = type("Class", (), {"process": lambda _self, record: plain(record)})
    assert may_express(spec_of(in_class, order_by=order_by))


@pytest.mark.parametrize("function", [plain, later])
def test_batches_may(function: Any) -> None:
    """They take chunks whole, and run on threads or a loop."""
    assert may_express(BatchSpec(topics=("t",), function=function))


@pytest.mark.parametrize(
    "spec",
    [
        spec_of(plain, express=False),
        spec_of(plain, express=None),
        spec_of(plain, scope="handler"),
        spec_of(plain, rate_limit=10.0),
        spec_of(plain, deadline_s=1.0),
        spec_of(plain, workers=Processes(1)),
        spec_of(later),
        BatchSpec(topics=("t",), function=plain, express=False),
        BatchSpec(topics=("t",), function=plain, express=True, scope="handler"),
    ],
    ids=[
        "off",
        "default",
        "scope",
        "rate",
        "deadline",
        "processes",
        "async",
        "batches off",
        "batches, scope",
    ],
)
def test_handlers_whose_keys_are_needed_may_not(spec: HandlerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record then goes through the lane of its key."""
    monkeypatch.setattr("ehkafka.handlers.chunk_call.ON_BY_DEFAULT", False)
    assert not may_express(spec)


def test_an_interpreter_without_exact_iterators_has_no_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits must not rest on a hint."""
    monkeypatch.setattr("ehkafka.handlers.chunk_call.has_exact_iterators", lambda: False)
    assert not may_express(spec_of(plain))


def run(function: Callable[[Any], object], records: int = 5, middleware: Any = (), **options: Any) -> bool:
    """Run a chunk of so many records."""
    history, keys = options.pop("history", None), options.pop("keys", None)
    spec = spec_of(function, **options)
    call = make_run_chunk(spec, middleware, history, Record, KeyReader())
    assignment = Assignment(TopicPartition("t", 0), 1)
    if spec.is_class:
        assignment.context = function()  # type: ignore[call-arg]
    messages = [SimulatedMessage("t", 0, n, b"k%d" % n) for n in range(records)]
    chunk = Chunk(assignment, messages, 0, keys)
    chunk.line_up()
    return call(chunk)


def test_each_record_is_handled_once_in_order() -> None:
    """As a record, as a message, by a class, in middleware."""
    seen: list[int] = []

    class Class:
        def process(self, record: Any) -> None:
            seen.append(record.offset())

    assert not run(lambda record: seen.append(record.offset()))
    assert not run(lambda record: seen.append(record.offset()), raw=True)
    assert not run(Class)
    assert not run(lambda _record: None, middleware=[lambda record, _next: seen.append(record.offset())])
    assert seen == [*range(5)] * 4


def test_a_record_that_is_kept_stays_what_it_is() -> None:
    """Only a record that nobody keeps is used again."""
    kept: list[Record] = []
    run(kept.append)
    assert [record.offset() for record in kept] == [*range(5)]
    by_closure: list[Callable[[], int]] = []
    run(lambda record: by_closure.append(lambda: record.offset() + 0))
    assert [offset() for offset in by_closure] == [*range(5)]
    bound: list[Callable[[], int]] = []
    run(lambda record: bound.append(record.offset))
    assert [offset() for offset in bound] == [*range(5)]
    results: list[Record] = []

    def returned(record: Record) -> Record:
        if record.offset() % 2:
            results.append(record)
        return record

    run(returned)
    assert [record.offset() for record in results] == [1, 3]


def test_a_record_is_new_to_each_call() -> None:
    """What a handler did to the last one is not seen in the next."""
    attempts: list[int] = []

    def spoil(record: Any) -> None:
        attempts.append(record.attempt)
        record.attempt = 7

    run(spoil)
    assert attempts == [1] * 5


def test_a_failed_call_ends_the_run_with_the_error() -> None:
    """Nothing after it is called; what a generator function gives is a failure too."""
    seen: list[int] = []

    def fail(record: Any) -> None:
        seen.append(record.offset())
        if record.offset() == 2:
            raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        run(fail)
    assert seen == [0, 1, 2]
    with pytest.raises(TypeError, match="nobody runs"):
        run(lambda _record: (n for n in range(3)))
    with pytest.raises(TypeError, match="nobody runs"):
        run(lambda _record: (n for n in range(3)), raw=True)


def test_a_deferred_record_ends_the_run() -> None:
    """The worker gives it a lane, which waits for the answer."""
    seen: list[int] = []

    def handle(record: Any) -> None:
        seen.append(record.offset())
        if record.offset() == 1:
            record.defer()

    try:
        assert run(handle)
    finally:
        DEFERRED.clear()
    assert seen == [0, 1]


def test_a_history_is_reported_every_call_with_its_key() -> None:
    """The checker judges runs with chunks as well."""
    reported: list[tuple[Any, ...]] = []

    class History:
        def started(self, *what: Any) -> None:
            reported.append(("started", *what[2:]))

        def finished(self, *what: Any) -> None:
            reported.append(("finished", *what[2:]))

    def fail(record: Any) -> None:
        if record.offset() == 1:
            raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        run(fail, history=History())
    assert reported == [
        ("started", 0, b"k0", 1),
        ("finished", 0, b"k0", 1, "finished"),
        ("started", 1, b"k1", 1),
        ("finished", 1, b"k1", 1, "failed"),
    ]


def test_a_history_is_reported_the_keys_that_the_user_gave() -> None:
    """What `order_by` said when the records came, not asked again; there may be more than are run."""
    reported: list[Any] = []

    class History:
        def started(self, *what: Any) -> None:
            reported.append(what[3])

        def finished(self, *what: Any) -> None:
            reported.append(what[3])

    run(plain, 2, history=History(), keys=["one", "two", "of the next"])
    assert reported == ["one", "one", "two", "two"]
