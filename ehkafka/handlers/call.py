"""How a handler's function is called for a lane's head: records, middleware, history; plain and async.

Built once when the app starts, on the hot path ever after. Called by workers only, on their threads; what
is returned raises what the handler raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.events.history import call_in_history
from ehkafka.handlers.sending import calling, sending, sending_async, taking, taking_async
from ehkafka.handlers.spec import is_async
from ehkafka.lanes.order import KeyFailure, by_key
from ehkafka.lanes.received import Received
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Record, sending_type
from ehkafka.recovery.unrun import must_return_nothing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractContextManager

    from ehkafka.events.history import History
    from ehkafka.handlers.payload import Payload
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.lane import Lane
    from ehkafka.outputs.making import OutputMaker
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Message
    from ehkafka.workers.processes.outbox import Outbox

    InvokeAsync = Callable[[Lane], Awaitable[object]]


def make_invoke(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record] = Record,
    outlet: Outlet | None = None,
) -> Callable[[Lane], object]:
    """Return the function that workers call for a lane's head. Raises `ConfigurationError`."""
    _must_be_of_a_kind(spec, middleware)
    build = _for_class if spec.is_class else _for_function
    invoke = build(spec, middleware, make_record, outlet)
    if outlet is not None:
        invoke = sending(invoke, outlet)
        if not (middleware or spec.is_class or spec.raw or outlet.before_next):
            invoke = _calling_at_first(spec, make_record, outlet, invoke)
    if spec.order_by is not by_key:
        invoke = _failing_without_key(invoke)
    return invoke if history is None else _recorded(invoke, history)


def _calling_at_first(
    spec: HandlerSpec, make_record: type[Record], outlet: Outlet, again: Callable[[Lane], object]
) -> Callable[[Lane], object]:
    """Take the short way for a record's first attempt, and `again` for each later one."""
    call = calling(spec.of_record(spec.function), outlet)

    def invoke(lane: Lane) -> object:
        if lane.attempts:
            return again(lane)
        return call(lane.assignment, lane.head, make_record(lane.head))  # type: ignore[arg-type]

    return invoke


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A function with its middleware, made to be pickled: `bind` gives what a worker process calls.

    `maker` is how its outputs are made; None where it has none.
    """

    function: Callable[[Any], object]
    middleware: tuple[Any, ...]
    make_record: type[Record]
    payload: Payload | None = None
    maker: OutputMaker | None = None

    def bind(self, outbox: Outbox | None = None) -> Callable[[Message, int], None]:
        """Return what is called with each message and its attempt, and sends by `outbox`."""
        function = self.function if self.payload is None else self.payload.around(self.function)
        handler = _with_middleware(_really_run(taking(function, outbox)), self.middleware)
        make_record = self.make_record if outbox is None else sending_type(self.make_record, outbox)

        def call(message: Message, attempt: int) -> None:
            if (result := handler(make_record(message, attempt))) is not None:
                must_return_nothing(result)

        return call


def make_call(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    make_record: type[Record],
    maker: OutputMaker | None = None,
) -> HandlerCall:
    """Return how a function handler is called in another process. Raises `ConfigurationError`."""
    _must_be_of_a_kind(spec, middleware)
    return HandlerCall(spec.function, tuple(middleware), make_record, spec.payload, maker)


def _for_function(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record], outlet: Outlet | None
) -> Callable[[Lane], object]:
    handler = with_middleware(taking(spec.of_record(spec.function), outlet), middleware)

    def call(lane: Lane) -> None:
        if (result := handler(make_record(lane.head, lane.attempts + 1))) is not None:  # type: ignore[arg-type]
            must_return_nothing(result)

    def call_raw(lane: Lane) -> None:
        lane.received = Received.of(lane.head)
        must_return_nothing(handler(lane.head))

    return call_raw if spec.raw else call


def _for_class(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record], outlet: Outlet | None
) -> Callable[[Lane], object]:
    def process(lane: Lane) -> None:
        function = spec.of_record(lane.assignment.context.process)  # type: ignore[attr-defined]
        handler = with_middleware(taking(function, outlet), middleware)
        must_return_nothing(handler(_given(lane, make_record, raw=spec.raw)))

    return process


def _given(lane: Lane, make_record: type[Record], *, raw: bool) -> Any:
    """Return what a handler is given of a lane's head."""
    if not raw:
        return make_record(lane.head, lane.attempts + 1)  # type: ignore[arg-type]
    lane.received = Received.of(lane.head)
    return lane.head


def _really_run(handler: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(record: Any) -> object:
        must_return_nothing(result := handler(record))
        return result

    return run


def must_run_in_threads(spec: HandlerSpec, *hooks: Any) -> None:
    """Refuse worker hooks that need an event loop where a handler has none. Raises `ConfigurationError`."""
    for hook in hooks:
        if hook is not None and is_async(hook):
            raise ConfigurationError(
                f"on_worker_start and on_worker_stop run in the workers of every handler: "
                f"{getattr(hook, '__name__', hook)!r} is an async def, but handler {spec.name!r} is a plain "
                "function and has no event loop. Write it as a plain function, or give the handlers an app "
                "each."
            )


def _of_its_kind(spec: HandlerSpec, middleware: Sequence[Any]) -> Sequence[Any]:
    """Return middleware as it goes around this handler. Raises `ConfigurationError`."""
    if spec.is_async:
        middleware = [getattr(one, "for_async", one) for one in middleware]  # ready-made ones do for both
    _must_be_of_a_kind(spec, middleware)
    return middleware


def _must_be_of_a_kind(spec: HandlerSpec, middleware: Sequence[Any]) -> None:
    """Refuse middleware that cannot wrap this handler: a plain one cannot wait for an async one's end."""
    for one in middleware:
        if is_async(one) != spec.is_async:
            own, its = (
                ("an async def", "a plain function")
                if spec.is_async
                else ("a plain function", "an async def")
            )
            raise ConfigurationError(
                f"middleware {getattr(one, '__name__', one)!r} is {its}, but handler {spec.name!r} is {own}: "
                "middleware wraps all handlers of an app and must be of their kind. Write it as "
                f"{own}, or give the handlers an app each."
            )


def with_middleware(handler: Callable[[Any], object], middleware: Sequence[Any]) -> Callable[[Any], object]:
    """Return a function in its middleware, the first one outermost. Refuses results that nobody would run."""
    if middleware:
        handler = _really_run(handler)
    return _with_middleware(handler, middleware)


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
        with _in_history(history, lane):
            invoke(lane)

    return recorded


def _in_history(history: History, lane: Lane) -> AbstractContextManager[None]:
    assignment, head = lane.assignment, lane.head
    assert head is not None
    what = (assignment.partition, assignment.epoch, head.offset(), users_key(lane.key), lane.attempts + 1)
    return call_in_history(history, what, head)


def make_invoke_async(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record] = Record,
    *,
    deadline_s: float | None = None,
    outlet: Outlet | None = None,
) -> InvokeAsync:
    """Return the coroutine function that asyncio workers await for a lane's head.

    A call that takes longer than `deadline_s` is cancelled and fails with a `TimeoutError`. Raises
    `ConfigurationError`.
    """
    middleware = _of_its_kind(spec, middleware)
    build = _for_class_async if spec.is_class else _for_function_async
    invoke = build(spec, middleware, make_record, outlet)
    if deadline_s is not None:
        from ehkafka.workers.tasks.deadlines import Deadlines  # noqa: PLC0415 - few handlers have one

        invoke = Deadlines(deadline_s).within(invoke)
    if outlet is not None:
        invoke = sending_async(invoke, outlet)
    if spec.order_by is not by_key:
        invoke = _failing_without_key_async(invoke)
    return invoke if history is None else _recorded_async(invoke, history)


def _for_function_async(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record], outlet: Outlet | None
) -> InvokeAsync:
    ends_the_call = not middleware and spec.deadline_s is None
    function = taking_async(spec.of_record(spec.function), outlet, ends_the_call=ends_the_call)
    handler: Any = _with_middleware(_really_run_async(function) if middleware else function, middleware)

    # No coroutine of its own: whoever awaits the handler's looks at its result, too.
    def call(lane: Lane) -> Awaitable[object]:
        return handler(make_record(lane.head, lane.attempts + 1))  # type: ignore[arg-type, no-any-return]

    def call_raw(lane: Lane) -> Awaitable[object]:
        lane.received = Received.of(lane.head)
        return handler(lane.head)  # type: ignore[no-any-return]

    return call_raw if spec.raw else call


def _for_class_async(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record], outlet: Outlet | None
) -> InvokeAsync:
    ends_the_call = not middleware and spec.deadline_s is None

    def process(lane: Lane) -> Awaitable[object]:
        record = _given(lane, make_record, raw=spec.raw)
        process = spec.of_record(lane.assignment.context.process)  # type: ignore[attr-defined]
        function = taking_async(process, outlet, ends_the_call=ends_the_call)
        handler: Any = _with_middleware(_really_run_async(function) if middleware else function, middleware)
        return handler(record)  # type: ignore[no-any-return]

    return process


def _really_run_async(handler: Callable[[Any], Awaitable[object]]) -> Callable[[Any], object]:
    async def run(record: Any) -> object:
        must_return_nothing(result := await handler(record))
        return result

    return run


def _failing_without_key_async(invoke: InvokeAsync) -> InvokeAsync:
    async def guarded(lane: Lane) -> object:
        if isinstance(lane.key, KeyFailure):
            raise lane.key.error
        return await invoke(lane)

    return guarded


def _recorded_async(invoke: InvokeAsync, history: History) -> InvokeAsync:
    async def recorded(lane: Lane) -> None:
        with _in_history(history, lane):
            if (result := await invoke(lane)) is not None:
                must_return_nothing(result)

    return recorded


def make_batch_function(
    spec: HandlerSpec, middleware: Sequence[Any], outlet: Outlet | None = None
) -> Callable[[Any], Any]:
    """Return what batch workers call with a batch, the function in its middleware; async if that is.

    Raises `ConfigurationError`.
    """
    middleware = _of_its_kind(spec, middleware)
    really_run: Any = _really_run_async if spec.is_async else _really_run
    # Outside, too: a middleware may give a coroutine in place of what it does.
    inner = really_run(spec.function)
    if outlet is not None:
        its_own = spec.of_record(spec.function)
        inner = taking_async(its_own, outlet) if spec.is_async else taking(its_own, outlet)
    function: Callable[[Any], Any] = really_run(_with_middleware(inner, middleware))
    return function
