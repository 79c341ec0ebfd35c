"""Express for a handler: whether its records may go in chunks, and how they are called then.

Decided and built once when the app starts; `make_run_chunk`'s result is on the hot path ever after, called
by workers on their threads. What it yields raises what the handler raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.batch_handlers import BatchSpec
from ehkafka.invoking import with_middleware
from ehkafka.lanes.chunk import can_tell
from ehkafka.lanes.order import by_key, by_partition, by_topic_partition, unordered
from ehkafka.recovery.deferral import is_deferred
from ehkafka.workers.processes import Processes
from ehkafka.workers.unrun import must_have_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ehkafka.handlers import HandlerSpec
    from ehkafka.history import History
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.order import KeyReader
    from ehkafka.records import Message, Record
    from ehkafka.workers.protocol import RunChunk

# What `handler(express=None)` means.
ON_BY_DEFAULT = False


def may_express(spec: HandlerSpec) -> bool:
    """Tell whether a handler's records may go in chunks. What may change while it runs: `needs_lanes`."""
    wanted = ON_BY_DEFAULT if spec.express is None else spec.express
    named = (by_key, by_partition, by_topic_partition, unordered)
    return (
        wanted
        # Only there a chunk can be emptied in one step, and an iterator tells exactly how far it is.
        and can_tell()
        # Threads only: tasks are suspended in the middle of a record, processes and batches take several.
        and not (isinstance(spec, BatchSpec) or isinstance(spec.workers, Processes) or spec.is_async)
        # A key's lane would be of several partitions, whose chunks know nothing of each other.
        and spec.scope == "partition"
        # Keys are read late and under the lock: no user code there.
        and any(spec.order_by is function for function in named)
        # Lanes are lent one record at a time, for a token each.
        and spec.rate_limit is None
        # Each call's beginning is noted with its key.
        and spec.deadline_s is None
    )


def make_run_chunk(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record],
    reader: KeyReader,
) -> RunChunk:
    """Return what calls a handler for one record of a chunk after another.

    `map` in `map`: no line of Python runs for a record but the handler's own.
    """
    raw = spec.raw

    def handler_of(assignment: Assignment) -> Callable[[Any], object]:
        function = assignment.context.process if spec.is_class else spec.function  # type: ignore[attr-defined]
        return with_middleware(function, middleware)

    def run(assignment: Assignment, messages: Iterator[Message]) -> Iterable[object]:
        handler = handler_of(assignment)
        return map(handler, messages if raw else map(make_record, messages))

    if history is None:
        return run

    make = None if raw else make_record

    def run_recorded(assignment: Assignment, messages: Iterator[Message]) -> Iterable[object]:
        return map(_recorded(assignment, handler_of(assignment), history, reader, make), messages)

    return run_recorded


def _recorded(
    assignment: Assignment,
    handler: Callable[[Any], object],
    history: History,
    reader: KeyReader,
    make_record: type[Record] | None,
) -> Callable[[Message], None]:
    def recorded(message: Message) -> None:
        (key,) = reader.keys([message])
        what = (assignment.partition, assignment.epoch, message.offset(), key, 1)
        history.started(*what)
        try:
            must_have_run(handler(message if make_record is None else make_record(message)))
        except BaseException:
            history.finished(*what, "failed")
            raise
        if not is_deferred(message):  # else its answer is the end, told by `recovery.pending`
            history.finished(*what, "finished")

    return recorded
