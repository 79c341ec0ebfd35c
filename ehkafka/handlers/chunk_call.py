"""Express for a handler: whether its records may go in chunks, and how they are called then.

Decided and built once when the app starts; `make_run_chunk`'s result is on the hot path ever after, called
by workers on their threads. It raises what the handler raises.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any

from ehkafka.events.history import call_in_history
from ehkafka.handlers.call import with_middleware
from ehkafka.handlers.sending import calling, calling_in_chunk, sending_in_chunk, taking
from ehkafka.handlers.spec import is_batch
from ehkafka.lanes.chunk import has_exact_iterators
from ehkafka.lanes.user_keys import users_key
from ehkafka.records.deferral import DEFERRED
from ehkafka.recovery.unrun import must_return_nothing
from ehkafka.workers.processes.option import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from ehkafka.events.history import History
    from ehkafka.handlers.payload import Payload
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.order import KeyReader
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Message, Record
    from ehkafka.workers.protocol import RunChunk

# What `handler(express=None)` means. With `Record` a handler of a microsecond got 0.78 of a bare loop's
# throughput in chunks and 0.25 in lanes; raw 0.80 and 0.28 (2 cores that others used, too).
ON_BY_DEFAULT = True


def may_express(spec: HandlerSpec) -> bool:
    """Tell whether a handler's records may go in chunks. What may change while it runs: `needs_lanes`."""
    wanted = ON_BY_DEFAULT if spec.express is None else spec.express
    if is_batch(spec):
        # Taken whole: no iterator tells anything.
        return wanted and spec.scope == "partition"
    return (
        wanted
        # Only there a chunk can be emptied in one step, and an iterator tells exactly how far it is.
        and has_exact_iterators()
        # Threads only: tasks are suspended in the middle of a record, processes take several.
        and not (isinstance(spec.workers, Processes) or spec.is_async)
        # A key's lane would be of several partitions, whose chunks know nothing of each other.
        and spec.scope == "partition"
        # Lanes are lent one record at a time, for a token each.
        and spec.rate_limit is None
        # Each call's beginning is noted with its key.
        and spec.deadline_s is None
        # Every record would leave its chunk to wait.
        and spec.acknowledged != "before_next"
    )


def may_make_lanes_late(spec: HandlerSpec) -> bool:
    """Tell whether a handler's records may get their lanes as its tasks take them; see `lanes.late`."""
    wanted = ON_BY_DEFAULT if spec.express is None else spec.express
    return (
        wanted
        # Threads would wait for the lock, or find it taken, at every record.
        and spec.is_async
        and not is_batch(spec)
        # As for chunks that run.
        and spec.scope == "partition"
        and spec.rate_limit is None
    )


def make_run_chunk(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record],
    reader: KeyReader,
    outlet: Outlet | None = None,
) -> RunChunk:
    """Return what calls a handler for one record of a chunk after another."""

    def handler_of(assignment: Assignment) -> Callable[[Any], object]:
        function = spec.of_record(users_function(assignment))
        if outlet is None:
            return with_middleware(function, middleware)
        if not middleware:
            return calling_in_chunk(function, outlet, assignment)
        return sending_in_chunk(with_middleware(taking(function, outlet), middleware), outlet, assignment)

    def users_function(assignment: Assignment) -> Any:
        return assignment.context.process if spec.is_class else spec.function  # type: ignore[attr-defined]

    def run_payloads(chunk: Chunk) -> bool:
        assert chunk.iterator is not None
        assert spec.payload is not None
        return _run_payloads(users_function(chunk.assignment), chunk.iterator, spec.payload)

    def run_sending(chunk: Chunk) -> bool:
        assert chunk.iterator is not None
        assert outlet is not None
        assignment = chunk.assignment
        call = calling(spec.of_record(users_function(assignment)), outlet)
        return _run_sending(call, assignment, chunk.iterator, make_record)

    def run(chunk: Chunk) -> bool:
        assert chunk.iterator is not None
        return _run_records(handler_of(chunk.assignment), chunk.iterator, make_record)

    def run_raw(chunk: Chunk) -> bool:
        assert chunk.iterator is not None
        # Such a handler gets the engine's own messages: what it sets in one is put back before a retry.
        chunk.remember()
        return _run_messages(handler_of(chunk.assignment), chunk.iterator)

    is_alone = spec.payload is not None and spec.payload.is_alone and outlet is None
    if history is None and is_alone and not middleware:
        return run_payloads
    if history is None and outlet is not None and not middleware and not spec.raw:
        return run_sending
    if history is None:
        return run_raw if spec.raw else run
    report, make = history, None if spec.raw else make_record

    def run_recorded(chunk: Chunk) -> bool:
        assert chunk.iterator is not None
        known = None if chunk.keys is None else iter(chunk.keys)
        if spec.raw:
            chunk.remember()

        def key_of(message: Message) -> Hashable:
            return reader.keys([message])[0] if known is None else users_key(next(known))

        call = _recorded(chunk.assignment, handler_of(chunk.assignment), report, key_of, make)
        return _run_messages(call, chunk.iterator)

    return run_recorded


def _run_messages(handler: Callable[[Any], object], messages: Iterator[Message]) -> bool:
    for message in messages:
        if (result := handler(message)) is not None:
            must_return_nothing(result)
        # Some record of some handler is deferred. Whether it is this one the worker looks up under the lock,
        # so the hot path pays for one look at a dict.
        if DEFERRED:
            return True
    return False


def _run_payloads(handler: Callable[[Any], object], messages: Iterator[Message], payload: Payload) -> bool:
    """Make no record at all. Such a handler cannot defer one either."""
    decode = payload.codec.decode
    for message in messages:
        value: Any = message.value()
        if value is None:
            payload.without_value()
        else:
            try:
                value = decode(value)
            except Exception as error:
                if (refusal := payload.refusal(error)) is None:
                    raise
                raise refusal from None
        if (result := handler(value)) is not None:
            must_return_nothing(result)
    return False


def _run_records(
    handler: Callable[[Any], object], messages: Iterator[Message], make_record: type[Record]
) -> bool:
    """Make a record only where the handler has kept the last one: making one costs more than all the rest."""
    record: Any = None
    alone = 0
    for message in messages:
        # More references than when it was new: somebody keeps it. Nothing has less than none (see None).
        if getrefcount(record) > alone:
            record = make_record(message)
            alone = getrefcount(record)
        else:
            record._message = message  # noqa: SLF001 - as `__init__` does
            record.attempt = 1
        if (result := handler(record)) is not None:
            must_return_nothing(result)
            result = None  # may be the record itself
        if DEFERRED:
            return True
    return False


def _run_sending(
    call: Callable[[Assignment, Message, Any], None],
    assignment: Assignment,
    messages: Iterator[Message],
    make_record: type[Record],
) -> bool:
    """Do the same for a handler with outputs: `call` looks at what the handler returns."""
    record: Any = None
    alone = 0
    for message in messages:
        if getrefcount(record) > alone:
            record = make_record(message)
            alone = getrefcount(record)
        else:
            record._message = message  # noqa: SLF001 - as `__init__` does
            record.attempt = 1
        call(assignment, message, record)
        if DEFERRED:
            return True
    return False


def _recorded(
    assignment: Assignment,
    handler: Callable[[Any], object],
    history: History,
    key_of: Callable[[Message], Hashable],
    make_record: type[Record] | None,
) -> Callable[[Message], None]:
    def recorded(message: Message) -> None:
        key = key_of(message)
        what = (assignment.partition, assignment.epoch, message.offset(), key, 1)
        with call_in_history(history, what, message):
            must_return_nothing(handler(message if make_record is None else make_record(message)))

    return recorded
