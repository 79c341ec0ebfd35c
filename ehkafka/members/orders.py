"""In a member: what its supervisor orders, heard on one thread and carried out in the main one.

The supervisor alone decides when a member stops: Ctrl-C in a terminal reaches every process of the group, and
would otherwise be taken twice. A SIGTERM to this process alone is an order to stop, too; it never cuts a stop
short.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from ehkafka.run import signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

Order = Literal["stop", "leave"]
# What a process ends with that is to end before its app runs, or at once while it runs `on_stop` functions.
INTERRUPTED: Final = 130
# Blocked around the start of a member, until its own handlers are there.
HELD: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Orders:
    """The orders to one member. Made on the main thread, before any other exists."""

    def __init__(self) -> None:
        self._orders: deque[tuple[Order, tuple[Any, ...]]] = deque()
        self._lock = threading.Lock()
        # Under the lock: whether the app has not begun to run, runs, or has run.
        self._phase: Literal["before", "running", "after"] = "before"
        self._main = threading.main_thread().ident or 0
        # Handlers and not SIG_IGN: what a member executes must not inherit that it ignores them.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, _ignore)
        signals.FREE.append(_ignore)
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._obey_outside("stop"))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)

    def take(self, order: Order, *how: object) -> None:
        """Take an order; `how` is what `stop` is called with. Before the app runs it ends the process.

        Any thread but the main one.
        """
        with self._lock:
            self._orders.append((order, how))
            if self._phase != "running":
                self._obey_outside(order)
                return
        signal.pthread_kill(self._main, signal.SIGTERM)

    @contextmanager
    def taken(self, stop: Callable[..., object], leave: Callable[[], None]) -> Iterator[None]:
        """Call `stop` at the first order, `leave` at one to leave, in the main thread, within the block."""
        is_stopping = False

        def carry_out(_number: int, _frame: FrameType | None) -> None:
            nonlocal is_stopping
            orders = list[tuple[Order, tuple[Any, ...]]]()
            while self._orders:
                orders.append(self._orders.popleft())
            for order, how in orders or [("stop", ("SIGTERM",))]:
                if order == "leave":
                    leave()
                elif not is_stopping:
                    is_stopping = True
                    stop(*how)

        with signals.handled([signal.SIGTERM], carry_out):
            with self._lock:
                self._phase = "running"
            try:
                yield
            finally:
                with self._lock:
                    self._phase = "after"

    def _obey_outside(self, order: Order) -> None:
        if self._phase == "before":
            os._exit(INTERRUPTED)  # nothing was started
        if order == "leave":
            os._exit(INTERRUPTED)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Leave it to the supervisor."""
