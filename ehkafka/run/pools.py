"""Pools: the workers that each kind of handler gets: threads, an event loop, processes, or batches.

Called by `routes` before any thread of the run exists. Starts nothing. Each kind is loaded when a handler
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
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.handlers.batch import BatchSpec
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.order import KeyReader
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Record
    from ehkafka.recovery.failures import Failures
    from ehkafka.recovery.pending import PendingAnswers
    from ehkafka.run.assembly import Assembly
    from ehkafka.workers.batches.workers import BatchWorkers
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.processes.workers import ProcessWorkers
    from ehkafka.workers.protocol import Workers
    from ehkafka.workers.tasks.shared import SharedLoop


class Pool(NamedTuple):
    """A handler's workers, and the clock of their calls where one is needed."""

    workers: Workers
    attempts: AttemptClock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerParts:
    """The source of records of a handler's workers, and the part that decides on failed ones."""

    run: Assembly
    spec: HandlerSpec
    hub: Hub
    keys: KeyReader
    failures: Failures
    deferrals: PendingAnswers
    make_record: type[Record]
    outlet: Outlet | None = None

    def pool(self) -> Pool:
        """Return the handler's workers, none of them started. Raises `ConfigurationError`."""
        app, spec = self.run.app, self.spec
        if spec.is_async and not is_batch(spec):
            return self._tasks()
        must_run_in_threads(spec, app.worker_set_up, app.worker_tear_down)
        if is_batch(spec):
            return Pool(self._batches(spec))
        if isinstance(spec.workers, Processes):
            return Pool(self._processes(spec.workers))
        return self._threads()

    def _threads(self) -> Pool:
        app, spec = self.run.app, self.spec
        invoke, attempts = self._invoke()
        is_shown = spec.deadline_s is not None or app.history is not None
        needs_entry = is_shown or spec.is_class or self.outlet is not None
        on_message = HandlerCall(spec.function, tuple(app.middleware), self.make_record, spec.payload)
        plain = None if needs_entry else on_message.bind()
        options = self._options()
        return Pool(ThreadWorkers(self.hub, options, invoke=invoke, plain=plain), attempts)

    def _invoke(self) -> tuple[Any, AttemptClock | None]:
        """Return what calls a handler, and the clock of its calls where it has a deadline."""
        app, spec = self.run.app, self.spec
        invoke = make_invoke(spec, app.middleware, app.history, self.make_record, self.outlet)
        attempts = None
        if spec.deadline_s is not None:
            attempts = AttemptClock(spec.name, spec.deadline_s, app.clock.now_s)
            invoke = attempts.timed(invoke, is_async=spec.is_async)
        if spec.deadline_s is None and app.history is None:
            return invoke, attempts
        # Both note the key of each call.
        keyed = self.hub.inboxes.router.unread.keyed
        return lambda entry, number: invoke(keyed(entry), number), attempts

    def _tasks(self) -> Pool:
        from ehkafka.workers.tasks.workers import AsyncioWorkers  # noqa: PLC0415

        invoke, attempts = self._invoke()
        options = self._options()
        loop, restores = self._loop(), self.spec.raw
        return Pool(AsyncioWorkers(self.hub, options, loop, invoke=invoke, restores=restores), attempts)

    def _loop(self) -> SharedLoop:
        """Return the loop that the coroutines of the run share, or one of this handler's own."""
        from ehkafka.workers.tasks.shared import AppLoop  # noqa: PLC0415

        app = self.run.app
        return AppLoop(app.clock, self.spec.name) if app.shared_loop is None else app.shared_loop

    def _batches(self, spec: BatchSpec) -> BatchWorkers:
        from ehkafka.handlers.batch_call import BatchCall  # noqa: PLC0415
        from ehkafka.workers.batches.workers import BatchWorkers  # noqa: PLC0415

        app, loop = self.run.app, self._loop() if spec.is_async else None
        call = BatchCall(
            spec,
            app.middleware,
            router=self.hub.inboxes.router,
            make_record=self.make_record,
            emit=self.run.bus.emit,
            history=app.history,
            loop=loop,
            outlet=self.outlet,
            keys_fail=self.keys.calls_user_code,
        )
        return BatchWorkers(
            self.hub,
            self._options(),
            call=call,
            limits=spec.limits(),
            emit=self.run.bus.emit,
            loop=loop,
        )

    def _processes(self, settings: Processes) -> ProcessWorkers:
        from ehkafka.workers.processes.workers import ProcessWorkers  # noqa: PLC0415

        app, spec = self.run.app, self.spec
        # In the child a record sends by what stands there for the outlet.
        make_record = record_type(spec.headers, event_hubs=app.endpoint.is_event_hubs)
        middleware = {f"middleware {number}": one for number, one in enumerate(app.middleware, 1)}
        return ProcessWorkers(
            self.hub,
            settings,
            options=self._options(),
            call=HandlerCall(
                spec.function,
                tuple(of_its_kind(spec, app.middleware)),
                make_record,
                spec.payload,
                None if self.outlet is None else self.outlet.maker,
            ),
            parts={
                f"handler {spec.name!r}": spec.function,
                f"what handler {spec.name!r} decodes to": spec.payload,
                **middleware,
            },
            on_stop=self.run.stop_from_child,
            emit=self.run.bus.emit,
            history=in_history(app.history),
            outlet=self.outlet,
            deadline_s=spec.deadline_s,
            now_s=app.clock.now_s,
        )

    def _options(self) -> PoolOptions:
        """Return what all pools are given."""
        return PoolOptions(
            name=self.spec.name,
            size=size_of(self.spec),
            on_failure=self.failures,
            on_death=self.run.worker_died,
            set_up=self.run.app.worker_set_up,
            tear_down=self._tear_down(),
            deferrals=self.deferrals,
        )

    def _tear_down(self) -> Callable[[], object] | None:
        """Return what runs where a worker leaves. What it raises is reported, like any hook's."""
        tear_down: Any = self.run.app.worker_tear_down
        spec = self.spec
        if tear_down is None or isinstance(spec.workers, Processes):  # what that raises, a child hands over
            return tear_down  # type: ignore[no-any-return]

        @contextmanager
        def reporting() -> Iterator[None]:
            try:
                yield
            except BaseException as error:  # whatever it is: the worker leaves anyway
                self.run.bus.emit(UserCodeFailed.of("on_worker_stop", error))

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
    return ChildInbox if isinstance(spec.workers, Processes) else Inbox
