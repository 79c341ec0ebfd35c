"""How a handler's function is called for a lane's head: records, middleware, history; plain and async.

Built once when the app starts, on the hot path ever after. Called by workers only, on their threads; what
is returned raises what the handler raises.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.order import KeyFailure, by_key
from ehkafka.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.handlers import HandlerSpec
    from ehkafka.history import History
    from ehkafka.lanes.lane import Lane

Middleware = "Callable[[Record, Callable[[Record], object]], object]"


def make_invoke(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record] = Record,
) -> Callable[[Lane], object]:
    """Return the function that workers call for a lane's head; built once, on the hot path ever after."""
    build = _for_class if spec.is_class else _for_function
    invoke = build(spec, middleware, make_record)
    if spec.order_by is not by_key:
        invoke = _failing_without_key(invoke)
    return invoke if history is None else _recorded(invoke, history)


def _for_function(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record]
) -> Callable[[Lane], object]:
    handler = _with_middleware(_really_run(spec.function) if middleware else spec.function, middleware)

    def call(lane: Lane) -> None:
        if (result := handler(make_record(lane.head, lane.attempts + 1))) is not None:  # type: ignore[arg-type]
            _must_have_run(result)

    return call if not spec.raw else lambda lane: _must_have_run(handler(lane.head))


def _for_class(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record]
) -> Callable[[Lane], object]:
    def process(lane: Lane) -> object:
        handler = _with_middleware(_really_run(lane.assignment.context.process), middleware)  # type: ignore[attr-defined]
        return handler(lane.head if spec.raw else make_record(lane.head, lane.attempts + 1))  # type: ignore[arg-type]

    return process


def _really_run(handler: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(record: Any) -> object:
        _must_have_run(result := handler(record))
        return result

    return run


def _must_have_run(result: object) -> None:
    """Refuse what a wrapped `async def` gives: nothing of it ran, and the record would count as handled."""
    if isinstance(result, CoroutineType | GeneratorType | AsyncGeneratorType):
        if not isinstance(result, AsyncGeneratorType):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} that nobody runs: the record was not handled; "
            "this version runs plain functions only"
        )


def _with_middleware(handler: Callable[[Any], object], middleware: Sequence[Any]) -> Callable[[Any], object]:
    for wrap in reversed(middleware):
        handler = _wrapped(wrap, handler)
    return handler


def _wrapped(wrap: Callable[..., object], call_next: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda record: wrap(record, call_next)


def _failing_without_key(invoke: Callable[[Lane], object]) -> Callable[[Lane], object]:
    def guarded(lane: Lane) -> object:
        if isinstance(lane.key, KeyFailure):
            raise lane.key.error
        return invoke(lane)

    return guarded


def _recorded(invoke: Callable[[Lane], object], history: History) -> Callable[[Lane], object]:
    def recorded(lane: Lane) -> None:
        assignment, head = lane.assignment, lane.head
        assert head is not None
        what = (assignment.partition, assignment.epoch, head.offset(), lane.key, lane.attempts + 1)
        history.started(*what)
        try:
            invoke(lane)
        except BaseException:
            history.finished(*what, "failed")
            raise
        history.finished(*what, "finished")

    return recorded
