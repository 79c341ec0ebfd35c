"""How a handler's function is called for a record: middleware, outputs, history; plain and async.

Built once when the app starts, on the hot path ever after. Called by workers only, on their threads; what
is returned raises what the handler raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.events.history import call_in_history
from ehkafka.handlers.sending import calling, calling_async, taking
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import KeyFailure, by_key
from ehkafka.lanes.received import ReceivedMessage
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Record, sending_type
from ehkafka.recovery.unrun import must_return_nothing
from ehkafka.wording.calling import is_async, named
from ehkafka.workers.protocol import within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ehkafka.events.history import History
    from ehkafka.handlers.payload import Payload
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.encoding import OutputMaker
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Message
    from ehkafka.workers.processes.outbox import Outbox
    from ehkafka.workers.protocol import Around


def make_invoke(
    spec: HandlerSpec,
    middleware: Sequence[object],
    history: History | None,
    make_record: type[Record] = Record,
    outlet: Outlet | None = None,
) -> Any:
    """Return what workers call for a record: an `Invoke`, or of an `async def` an `InvokeAsync`.

    A coroutine that takes longer than the handler's `deadline_s` is cancelled and fails with a
    `TimeoutError`; what it has set in a message that is its argument, who awaits puts back. Raises
    `ConfigurationError`.
    """
    middleware = of_its_kind(spec, middleware)
    build = _for_class if spec.is_class else _for_function
    invoke = build(spec, spec.function, middleware, make_record, outlet)
    around = partial(within, is_async=spec.is_async)
    if spec.is_async and spec.deadline_s is not None:
        from ehkafka.workers.tasks.deadlines import Deadlines  # noqa: PLC0415 - few handlers have one

        invoke = Deadlines(spec.deadline_s).within(invoke)
    if outlet is not None:
        is_timed = spec.is_async and spec.deadline_s is not None
        if middleware or spec.is_class or spec.raw or outlet.before_next or is_timed:
            invoke = around(invoke, lambda entry, _number: outlet.begin(entry))
        else:
            wrap = calling_async if spec.is_async else calling
            invoke = wrap(spec.of_record(spec.function), outlet, make_record)
    if spec.raw and not spec.is_async:
        invoke = around(invoke, lambda entry, _number: ReceivedMessage(entry[MESSAGE]))
    if spec.order_by is not by_key:
        invoke = _failing_without_key(invoke)
    noted = in_history(history)
    return invoke if noted is None else around(invoke, noted)


def in_history(history: History | None) -> Around | None:
    """Return what goes around each call that a history is to know; None without a history."""
    if history is None:
        return None

    def around(entry: Entry, number: int) -> AbstractContextManager[None]:
        message, epoch = entry[MESSAGE], entry[EPOCH]
        what = (epoch.partition, epoch.number, message.offset(), users_key(entry[KEY]), number)
        return call_in_history(history, what, message)

    return around


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A function with its middleware, made to be pickled: `bind` gives what calls it for a message only.

    For worker processes, and for records whose keys are unread. `maker` is how a process makes its outputs.
    """

    function: Callable[[Any], object]
    middleware: tuple[Any, ...]
    make_record: type[Record]
    payload: Payload | None = None
    maker: OutputMaker | None = None

    def bind(self, outbox: Outbox | None = None) -> Callable[..., None]:
        """Return what is called with each message, and its attempt if not the first; sends by `outbox`."""
        function = self.function if self.payload is None else self.payload.around(self.function)
        handler = with_middleware(taking(function, outbox), self.middleware)
        make_record = self.make_record if outbox is None else sending_type(self.make_record, outbox)

        def call(message: Message, attempt: int = 1) -> None:
            if (result := handler(make_record(message, attempt))) is not None:
                must_return_nothing(result)

        return call


def handler_of(
    spec: HandlerSpec, function: object, middleware: Sequence[object], outlet: Outlet | None
) -> Callable[[Any], Any]:
    """Return a handler's function, or an instance's method, in its middleware and with its outputs sent."""
    taken = taking(spec.of_record(function), outlet, is_async=spec.is_async)
    return with_middleware(taken, middleware, is_async=spec.is_async)


def _for_function(
    spec: HandlerSpec,
    function: object,
    middleware: Sequence[object],
    make_record: type[Record],
    outlet: Outlet | None,
) -> Callable[[Entry, int], Any]:
    handler = handler_of(spec, function, middleware, outlet)
    if spec.raw:
        return lambda entry, _number: handler(entry[MESSAGE])
    if spec.is_async:  # no coroutine of its own: who awaits the handler's looks at its result, too
        return lambda entry, number: handler(make_record(entry[MESSAGE], number))

    def call(entry: Entry, number: int) -> None:
        if (result := handler(make_record(entry[MESSAGE], number))) is not None:
            must_return_nothing(result)

    return call


def _for_class(spec: HandlerSpec, _kind: Any, *around: Any) -> Callable[[Entry, int], Any]:
    def process(entry: Entry, number: int) -> object:
        instance: Any = entry[EPOCH].context
        if instance is None and entry[EPOCH].ended:  # in the moment before its call
            return _nothing() if spec.is_async else None
        return _for_function(spec, instance.process, *around)(entry, number)

    return process


async def _nothing() -> None:
    """Do what is to be done for a record whose class instance is gone: its next owner handles it."""


def must_run_in_threads(spec: HandlerSpec, *hooks: object) -> None:
    """Refuse worker hooks that need an event loop where a handler has none. Raises `ConfigurationError`."""
    for hook in hooks:
        if hook is not None and is_async(hook):
            raise ConfigurationError(
                f"on_worker_start and on_worker_stop run in the workers of every handler: "
                f"{named(hook)!r} is an async def, but handler {spec.name!r} is a plain function and has "
                f"no event loop. Write {named(hook)!r} as a plain function, or put the handlers into "
                f"separate apps."
            )


def of_its_kind(spec: HandlerSpec, middleware: Sequence[object]) -> Sequence[Any]:
    """Return middleware as it goes around this handler: a plain one cannot wait for an async one's end.

    Raises `ConfigurationError`.
    """
    if spec.is_async:
        middleware = [getattr(one, "for_async", one) for one in middleware]  # ready-made ones do for both
    kinds = {False: "a plain function", True: "an async def"}
    for one in middleware:
        if is_async(one) != spec.is_async:
            own, its = kinds[spec.is_async], kinds[not spec.is_async]
            raise ConfigurationError(
                f"middleware {named(one)!r} is {its}, but handler {spec.name!r} is {own}: "
                f"middleware wraps all handlers of an app, so it must be of the same kind. Write the "
                f"middleware as {own}, or put the handlers into separate apps."
            )
    return middleware


def with_middleware(
    handler: Callable[[Any], Any], middleware: Sequence[Any], *, is_async: bool = False
) -> Callable[[Any], Any]:
    """Return a function in its middleware, the first one outermost. Refuses results that would never run."""
    if middleware:
        handler = _really_run(handler, is_async=is_async)
    for wrap in reversed(middleware):
        handler = _wrapped(wrap, handler)
    return handler


def _wrapped(wrap: Callable[..., object], call_next: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda record: wrap(record, call_next)


def _failing_without_key(invoke: Callable[[Entry, int], object]) -> Callable[[Entry, int], object]:
    def guarded(entry: Entry, number: int) -> Any:
        if isinstance(key := entry[KEY], KeyFailure):
            raise key.error
        return invoke(entry, number)

    return guarded


def _really_run(handler: Callable[[Any], Any], *, is_async: bool) -> Callable[[Any], Any]:
    def run(record: object) -> object:
        must_return_nothing(result := handler(record))
        return result

    async def run_async(record: object) -> object:
        must_return_nothing(result := await handler(record))
        return result

    return run_async if is_async else run
