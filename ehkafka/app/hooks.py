"""Hooks: the functions around an app's handlers, and their registration.

Each is checked at once, so that a mistake is an exception where it stands. Nothing is called here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import must_answer, must_be_callable, named
from ehkafka.wording.calling import must_take, plainly

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.app import decorators
    from ehkafka.events import Hook

Function = TypeVar("Function", bound="Callable[..., Any]")


class Hooks:
    """Middleware and hooks of one app."""

    def __init__(self) -> None:
        self._middleware: list[Any] = []
        # By the names of `PartitionHooks`.
        self._partition_hooks: dict[str, Callable[..., Any]] = {}
        self._on_error: Callable[..., Any] | None = None
        self._on_start: list[Callable[[], Any]] = []
        self._on_stop: list[Callable[[], Any]] = []
        self._worker_set_up: Callable[[], Any] | None = None
        self._worker_tear_down: Callable[[], Any] | None = None
        self._event_hooks: list[Hook] = []

    @plainly
    def use(self, middleware: decorators.Middleware) -> decorators.Middleware:
        """Wrap every handler in `middleware(record, call_next)`; the first one used is the outermost.

        Around `async def` handlers it is an `async def`, too, and awaits `call_next(record)`.
        """
        self._must_be_new("middleware")
        must_be_callable(middleware, "middleware")
        must_take(middleware, ("record", "call_next"), f"middleware {named(middleware)}")
        self._middleware.append(middleware)
        return middleware

    @plainly
    def on_start(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in the thread that starts the app: the broker is reached, no record came yet.

        An `async def` runs with `loop="caller"` on the loop that entered the app, else on one that is made
        for it, lives until the stop, and is that of all async handlers, too: what it opens serves them.
        """
        self._must_be_new("on_start")
        must_be_callable(function, "on_start")
        must_take(function, (), "on_start")
        self._on_start.append(function)
        return function

    @plainly
    def on_stop(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function after the last record, if the on_start functions ran; last registered first.

        It runs in the thread that stops the app, an `async def` on the loop of those of `on_start`.
        """
        self._must_be_new("on_stop")
        must_be_callable(function, "on_stop")
        must_take(function, (), "on_stop")
        self._on_stop.append(function)
        return function

    @plainly
    def on_worker_start(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in each worker thread before its first record.

        For `async def` handlers it runs once in the handler's event loop, and may be an `async def` itself.
        """
        self._must_be_new("on_worker_start")
        must_be_callable(function, "on_worker_start")
        must_take(function, (), "on_worker_start")
        self._worker_set_up = function
        return function

    @plainly
    def on_worker_stop(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in each worker thread, or event loop, after its last record."""
        self._must_be_new("on_worker_stop")
        must_be_callable(function, "on_worker_stop")
        must_take(function, (), "on_worker_stop")
        self._worker_tear_down = function
        return function

    @plainly
    def on_error(self, function: decorators.ErrorHook) -> decorators.ErrorHook:
        """Let `function(kind, partition, record, error)` hear of errors and answer them.

        `kind` is `handler` (called on the worker's thread) or `connection` (partition and record are
        None; called for errors that librdkafka keeps trying to fix). It may answer `"continue"` (a
        failed record is then held: its key waits, nothing is committed past it), `"stop"`, or None to
        leave the decision to `on_failure`.
        """
        self._must_be_new("on_error")
        must_answer(function, ("kind", "partition", "record", "error"), "on_error")
        self._on_error = function
        return function

    @plainly
    def on_assigned(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call `function(partition)` on the hook thread before the first record of an assignment."""
        return self._set_partition_hook("on_assigned", function)

    @plainly
    def on_revoked(self, function: decorators.RevokeHook) -> decorators.RevokeHook:
        """Call `function(partition, reason)` after the last record; reason: `revoked` or `stopped`."""
        return self._set_partition_hook("on_revoked", function)

    @plainly
    def on_lost(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call `function(partition)` when a partition was lost: another member may have it already."""
        return self._set_partition_hook("on_lost", function)

    @plainly
    def on_idle(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call `function(partition)` once when nothing has come for `idle_s` and all is finished."""
        return self._set_partition_hook("on_idle", function)

    @plainly
    def add_hook(self, hook: Hook) -> None:
        """Hand every event of the catalogue (`ehkafka.events`) to `hook.on_event(event)`."""
        self._must_be_new("hook")
        if isinstance(hook, type) or not callable(getattr(hook, "on_event", None)):
            raise ConfigurationError(
                f"add_hook: {named(hook)} has no method on_event(event): give an object that has one."
            )
        must_take(hook.on_event, ("event",), "add_hook: on_event")
        self._event_hooks.append(hook)

    def _set_partition_hook(self, name: str, function: Function) -> Function:
        self._must_be_new(name)
        must_answer(function, ("partition", "reason") if name == "on_revoked" else ("partition",), name)
        self._partition_hooks[name] = function
        return function

    def _must_be_new(self, what: str) -> None:
        """Refuse a change of what runs. Raises `ConfigurationError`."""
        raise NotImplementedError
