"""The program's callbacks, coroutine functions or plain ones, as librdkafka can call them: from a thread.

Each runs on the consumer's event loop. What it raises comes out of the call that called it back.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from typing import TYPE_CHECKING, Any

from ehkafka.aio.reentry import Reentry

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

_IN_CONFIG = ("error_cb", "throttle_cb", "stats_cb", "on_commit")


class LoopCallbacks:
    """Makes the callbacks of one consumer. `loop` is where they run."""

    def __init__(self, owner: object, loop: asyncio.AbstractEventLoop) -> None:
        # Weakly: with its last reference a consumer ends.
        self._owner = weakref.ref(owner)
        self.loop = loop

    def in_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties with those callbacks that confluent-kafka calls on the loop as well."""
        result = dict(config)
        for name in _IN_CONFIG:
            if callable(result.get(name)):
                result[name] = self.on_loop(name, result[name])
        if "logger" in result:
            result["logger"] = _LoopLogger(self, result["logger"])
        return result

    def of_rebalance(self, name: str, callback: object) -> Any:
        """Return a callback that is given the asyncio consumer; what cannot be called is left as it is."""
        if not callable(callback):
            return callback
        call = self.on_loop(name, callback)
        return lambda _consumer, *arguments: call(self._owner(), *arguments)

    def on_loop(self, name: str, callback: Callable[..., object]) -> Callable[..., Any]:
        """Return a callback that waits for this one to have run on the loop."""

        @functools.wraps(callback, updated=())
        def wrapped(*arguments: object) -> Any:
            if asyncio._get_running_loop() is self.loop:  # noqa: SLF001 - get_running_loop raises where none is
                # As where the last reference goes away: to wait for the loop would stop it for good.
                why = "the consumer was used on the thread of its own event loop"
                raise RuntimeError(f"{name} could not be called: {why}.")
            return Reentry(self._owner(), name, self.loop).call(callback, arguments)

        return wrapped


class _LoopLogger:
    """A program's logger that is called on the loop."""

    def __init__(self, callbacks: LoopCallbacks, logger: logging.Logger) -> None:
        self._callbacks = callbacks
        self._logger = logger

    def log(self, *arguments: Any, **named: Any) -> None:
        """Log it soon; at once when the loop has gone."""
        call = functools.partial(self._logger.log, *arguments, **named)
        try:
            self._callbacks.loop.call_soon_threadsafe(call)
        except RuntimeError:
            call()
