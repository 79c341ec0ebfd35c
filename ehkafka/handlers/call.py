"""How a handler's function is called for a record: middleware, outputs, history; plain and async.

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
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
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
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.making import OutputMaker
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Message
    from ehkafka.workers.processes.outbox import Outbox
    from ehkafka.workers.protocol import Invoke, InvokeAsync


def make_invoke(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record] = Record,
    outlet: Outlet | None = None,
) -> Invoke:
    """Return the function that workers call for a record. Raises `ConfigurationError`."""
    _must_be_of_a_kind(spec, middleware)
    build = _for_class if spec.is_class else _for_function
    invoke = build(spec, middleware, make_record, outlet)
    if outlet is not None:
        invoke = sending(invoke, outlet)
        if not (middleware or spec.is_class or spec.raw or outlet.before_next):
            invoke = _calling_at_first(spec, make_record, outlet, invoke)
    if spec.raw:
        invoke = _restoring(invoke)
    if spec.order_by is not by_key:
        invoke = _failing_without_key(invoke)
    return invoke if history is None else _recorded(invoke, history)


def _calling_at_first(spec: HandlerSpec, make_record: type[Record], outlet: Outlet, again: Invoke) -> Invoke:
    """Take the short way for a record's first attempt, and `again` for each later one."""
    call = calling(spec.of_record(spec.function), outlet)

    def invoke(entry: Entry, number: int) -> object:
        if number > 1:
            return again(entry, number)
        message = entry[MESSAGE]
        return call(entry[EPOCH], message, make_record(message))

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
) -> Invoke:
    handler = with_middleware(taking(spec.of_record(spec.function), outlet), middleware)

    def call(entry: Entry, number: int) -> None:
        if (result := handler(make_record(entry[MESSAGE], number))) is not None:
            must_return_nothing(result)

    def call_raw(entry: Entry, _number: int) -> None:
        must_return_nothing(handler(entry[MESSAGE]))

    return call_raw if spec.raw else call


def _for_class(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record], outlet: Outlet | None
) -> Invoke:
    def process(entry: Entry, number: int) -> None:
        epoch = entry[EPOCH]
        instance: Any = epoch.context
        if instance is None and epoch.ended:
            return  # in the moment before its call
        function = spec.of_record(instance.process)
        handler = with_middleware(taking(function, outlet), middleware)
        message: Any = entry[MESSAGE]
        must_return_nothing(handler(message if spec.raw else make_record(message, number)))

    return process


def _restoring(invoke: Invoke) -> Invoke:
    """Put back what a handler has set in the engine's own message, where that is needed again."""

    def restored(entry: Entry, number: int) -> object:
        message = entry[MESSAGE]
        received = Received(message)
        try:
            result = invoke(entry, number)
        except BaseException:
            received.restore()
            raise
        received.keep_for_answer()
        return result

    return restored


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


def _failing_without_key(invoke: Invoke) -> Invoke:
    def guarded(entry: Entry, number: int) -> object:
        if isinstance(key := entry[KEY], KeyFailure):
            raise key.error
        return invoke(entry, number)

    return guarded


def _recorded(invoke: Invoke, history: History) -> Invoke:
    def recorded(entry: Entry, number: int) -> None:
        with _in_history(history, entry, number):
            invoke(entry, number)

    return recorded


def _in_history(history: History, entry: Entry, number: int) -> AbstractContextManager[None]:
    message, epoch = entry[MESSAGE], entry[EPOCH]
    what = (epoch.partition, epoch.number, message.offset(), users_key(entry[KEY]), number)
    return call_in_history(history, what, message)


def make_invoke_async(
    spec: HandlerSpec,
    middleware: Sequence[Any],
    history: History | None,
    make_record: type[Record] = Record,
    *,
    deadline_s: float | None = None,
    outlet: Outlet | None = None,
) -> InvokeAsync:
    """Return the coroutine function that asyncio workers await for a record.

    A call that takes longer than `deadline_s` is cancelled and fails with a `TimeoutError`. What a handler of
    messages has set in one, who awaits puts back. Raises `ConfigurationError`.
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

    # No coroutine of its own: who awaits the handler's looks at its result, too.
    def call(entry: Entry, number: int) -> Awaitable[object]:
        return handler(make_record(entry[MESSAGE], number))  # type: ignore[no-any-return]

    def call_raw(entry: Entry, _number: int) -> Awaitable[object]:
        return handler(entry[MESSAGE])  # type: ignore[no-any-return]

    return call_raw if spec.raw else call


def _for_class_async(
    spec: HandlerSpec, middleware: Sequence[Any], make_record: type[Record], outlet: Outlet | None
) -> InvokeAsync:
    ends_the_call = not middleware and spec.deadline_s is None

    def process(entry: Entry, number: int) -> Awaitable[object]:
        epoch = entry[EPOCH]
        instance: Any = epoch.context
        if instance is None and epoch.ended:
            return _nothing()  # in the moment before its call
        function = taking_async(spec.of_record(instance.process), outlet, ends_the_call=ends_the_call)
        handler: Any = _with_middleware(_really_run_async(function) if middleware else function, middleware)
        message: Any = entry[MESSAGE]
        return handler(message if spec.raw else make_record(message, number))  # type: ignore[no-any-return]

    return process


async def _nothing() -> None:
    """Do what is to be done for a record whose class instance is gone: its next owner handles it."""


def _really_run_async(handler: Callable[[Any], Awaitable[object]]) -> Callable[[Any], object]:
    async def run(record: Any) -> object:
        must_return_nothing(result := await handler(record))
        return result

    return run


def _failing_without_key_async(invoke: InvokeAsync) -> InvokeAsync:
    async def guarded(entry: Entry, number: int) -> object:
        if isinstance(key := entry[KEY], KeyFailure):
            raise key.error
        return await invoke(entry, number)

    return guarded


def _recorded_async(invoke: InvokeAsync, history: History) -> InvokeAsync:
    async def recorded(entry: Entry, number: int) -> None:
        with _in_history(history, entry, number):
            if (result := await invoke(entry, number)) is not None:
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
