"""Pools: the workers that each kind of handler gets: threads, an event loop, processes, or batches.

Called by `Assembly` before any thread of the run exists. Starts nothing. Each kind is loaded when a handler
wants it: most apps have one.
"""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.events import UserCodeFailed
from ehkafka.handlers.call import (
    HandlerCall,
    in_history,
    make_invoke,
    must_run_in_threads,
    of_its_kind,
)
from ehkafka.handlers.spec import is_batch
from ehkafka.lanes.inbox import Inbox
from ehkafka.records import record_type
from ehkafka.workers.attempt_clock import AttemptClock
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.events import Event
    from ehkafka.handlers.batch import BatchSpec
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.order import KeyReader
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Record
    from ehkafka.recovery.failures import Failures
    from ehkafka.recovery.pending import PendingAnswers
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Drain
    from ehkafka.workers.batches.workers import BatchWorkers
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.processes.workers import ProcessWorkers
    from ehkafka.workers.protocol import Workers
    from ehkafka.workers.tasks.shared import SharedLoop


@dataclass(frozen=True, slots=True)
class HandlerParts:
    """What a handler's workers get their records from, and what decides about those that fail."""

    hub: Hub
    keys: KeyReader
    failures: Failures
    deferrals: PendingAnswers
    make_record: type[Record]
    outlet: Outlet | None = None


class Pool(NamedTuple):
    """A handler's workers, and the clock of their calls where one is needed."""

    workers: Workers
    attempts: AttemptClock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """What the pools of one run have in common. Each way to make one raises `ConfigurationError`."""

    app: AppOptions
    emit: Callable[[Event], None]
    worker_died: Callable[[BaseException], None]
    stop_from_child: Callable[[Drain | bool | None, float | None], None]

    def pool(self, spec: HandlerSpec, parts: HandlerParts) -> Pool:
        """Return the handler's workers, none of them started."""
        if spec.is_async and not is_batch(spec):
            return self._tasks(spec, parts)
        must_run_in_threads(spec, self.app.worker_set_up, self.app.worker_tear_down)
        if is_batch(spec):
            return Pool(self._batches(spec, parts))
        if isinstance(spec.workers, Processes):
            return Pool(self._processes(spec, spec.workers, parts))
        return self._threads(spec, parts)

    def _threads(self, spec: HandlerSpec, parts: HandlerParts) -> Pool:
        invoke, attempts = self._invoke(spec, parts)
        is_shown = spec.deadline_s is not None or self.app.history is not None
        needs_entry = is_shown or spec.is_class or parts.outlet is not None
        on_message = HandlerCall(spec.function, tuple(self.app.middleware), parts.make_record, spec.payload)
        plain = None if needs_entry else on_message.bind()
        options = self._options(spec, parts)
        return Pool(ThreadWorkers(parts.hub, options, invoke=invoke, plain=plain), attempts)

    def _invoke(self, spec: HandlerSpec, parts: HandlerParts) -> tuple[Any, AttemptClock | None]:
        """Return what calls a handler, and the clock of its calls where it has a deadline."""
        invoke = make_invoke(spec, self.app.middleware, self.app.history, parts.make_record, parts.outlet)
        attempts = None
        if spec.deadline_s is not None:
            attempts = AttemptClock(spec.name, spec.deadline_s, self.app.clock.now_s)
            invoke = attempts.timed(invoke, is_async=spec.is_async)
        if spec.deadline_s is None and self.app.history is None:
            return invoke, attempts
        # Both note the key of each call.
        keyed = parts.hub.inboxes.router.unread.keyed
        return lambda entry, number: invoke(keyed(entry), number), attempts

    def _tasks(self, spec: HandlerSpec, parts: HandlerParts) -> Pool:
        from ehkafka.workers.tasks.workers import AsyncioWorkers  # noqa: PLC0415

        invoke, attempts = self._invoke(spec, parts)
        options = self._options(spec, parts)
        loop = self._loop(spec.name)
        return Pool(AsyncioWorkers(parts.hub, options, loop, invoke=invoke, restores=spec.raw), attempts)

    def _loop(self, handler: str) -> SharedLoop:
        """Return the loop that the coroutines of the run share, or one of this handler's own."""
        from ehkafka.workers.tasks.shared import AppLoop  # noqa: PLC0415

        shared = self.app.shared_loop
        return AppLoop(self.app.clock, handler) if shared is None else shared

    def _batches(self, spec: BatchSpec, parts: HandlerParts) -> BatchWorkers:
        from ehkafka.handlers.batch_call import BatchCall  # noqa: PLC0415
        from ehkafka.workers.batches.workers import BatchWorkers  # noqa: PLC0415

        app, loop = self.app, self._loop(spec.name) if spec.is_async else None
        call = BatchCall(
            spec,
            app.middleware,
            router=parts.hub.inboxes.router,
            make_record=parts.make_record,
            emit=self.emit,
            history=app.history,
            loop=loop,
            outlet=parts.outlet,
            keys_fail=parts.keys.calls_user_code,
        )
        return BatchWorkers(
            parts.hub,
            self._options(spec, parts),
            call=call,
            limits=spec.limits(),
            emit=self.emit,
            loop=loop,
        )

    def _processes(self, spec: HandlerSpec, settings: Processes, parts: HandlerParts) -> ProcessWorkers:
        from ehkafka.workers.processes.workers import ProcessWorkers  # noqa: PLC0415

        # In the child a record sends by what stands there for the outlet.
        make_record = record_type(spec.headers, event_hubs=self.app.endpoint.is_event_hubs)
        middleware = {f"middleware {number}": one for number, one in enumerate(self.app.middleware, 1)}
        return ProcessWorkers(
            parts.hub,
            settings,
            options=self._options(spec, parts),
            call=HandlerCall(
                spec.function,
                tuple(of_its_kind(spec, self.app.middleware)),
                make_record,
                spec.payload,
                None if parts.outlet is None else parts.outlet.maker,
            ),
            parts={
                f"handler {spec.name!r}": spec.function,
                f"what handler {spec.name!r} decodes to": spec.payload,
                **middleware,
            },
            on_stop=self.stop_from_child,
            emit=self.emit,
            history=in_history(self.app.history),
            outlet=parts.outlet,
            deadline_s=spec.deadline_s,
            now_s=self.app.clock.now_s,
        )

    def _options(self, spec: HandlerSpec, parts: HandlerParts) -> PoolOptions:
        """Return what all pools are given."""
        return PoolOptions(
            name=spec.name,
            size=size_of(spec),
            on_failure=parts.failures,
            on_death=self.worker_died,
            set_up=self.app.worker_set_up,
            tear_down=self._tear_down(spec),
            deferrals=parts.deferrals,
        )

    def _tear_down(self, spec: HandlerSpec) -> Callable[[], object] | None:
        """Return what runs where a worker leaves. What it raises is reported, like any hook's."""
        tear_down: Any = self.app.worker_tear_down
        if tear_down is None or isinstance(spec.workers, Processes):  # what that raises, a child hands over
            return tear_down  # type: ignore[no-any-return]

        @contextmanager
        def reporting() -> Iterator[None]:
            try:
                yield
            except BaseException as error:  # whatever it is: the worker leaves anyway
                self.emit(UserCodeFailed.of("on_worker_stop", error))

        def guarded() -> None:
            with reporting():
                tear_down()

        async def guarded_on_loop() -> None:
            with reporting():
                if inspect.isawaitable(result := tear_down()):
                    await result

        return guarded_on_loop if spec.is_async and not is_batch(spec) else guarded


def size_of(spec: HandlerSpec) -> int:
    """Return how many workers a handler has at first, and so how many inboxes."""
    if isinstance(spec.workers, Processes):
        return spec.workers.size
    if spec.auto is not None:
        return spec.auto.first
    assert isinstance(spec.workers, int)
    return spec.workers


def cores_for(spec: HandlerSpec) -> int | None:
    """Return how many workers get new records of a handler that computes; None: always all. See `width`."""
    if is_batch(spec) or isinstance(spec.workers, Processes):
        return None
    return 1 if spec.is_async else os.cpu_count() or 1


def inbox_of(spec: HandlerSpec) -> type[Inbox]:
    """Return the kind of inbox that a handler's workers have."""
    if not isinstance(spec.workers, Processes):
        return Inbox
    from ehkafka.workers.processes.inbox import ChildInbox  # noqa: PLC0415

    return ChildInbox
