"""The hook threads: partition hooks, class handlers' `open` and `close`, deadlines, `on_error("connection")`.

The poll thread must never wait for user code (a revoke within its budget aside), so it only submits. As long
as calls return soon they run one after the other, on one thread. One that takes longer keeps that thread, and
another goes on with the rest: calls of one order still wait for each other, others do not.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.events import UserCodeHangs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from ehkafka.events import Event
    from ehkafka.records import TopicPartition

PATIENCE_S: Final = 1.0
"""How long a call may hold up those of other orders."""

HANGS_S: Final = 5.0
"""After so long a call is reported as not returned, and no later call waits for it."""

THREADS_MAX: Final = 32
"""Calls that take their time, at once. With so many, the rest waits for one of them."""

CLOSE_CHECK_S = 20e-3
# Between two looks for a wish to exit at once.
EXIT_CHECK_S = 50e-3


@dataclass(slots=True)
class PartitionHooks:
    """The user's partition hooks; run on the hook thread, one after another."""

    on_assigned: Callable[[TopicPartition], None] | None = None
    on_revoked: Callable[[TopicPartition, str], None] | None = None
    on_lost: Callable[[TopicPartition], None] | None = None
    on_idle: Callable[[TopicPartition], None] | None = None


class HookCall:
    """One submitted call. Its fields are written under the threads' lock, but `step`, by its own thread."""

    def __init__(self, name: str, steps: Mapping[str, Callable[[], None]], order: Hashable) -> None:
        self.name = name
        self.order = order
        # Set when it has returned or raised.
        self.done = threading.Event()
        self._steps = steps
        # Which of its functions runs.
        self.step = ""
        self.began_s: float | None = None
        self.is_reported = False

    def run(self) -> None:
        """Call its functions, one after the other. Raises what one of them raises."""
        for step, function in self._steps.items():
            self.step = step
            function()

    def __str__(self) -> str:
        return self.name if self.step in {"", self.name} else f"{self.step} ({self.name})"


class HookThreads:
    """Daemon threads; the first one is started by the first call. From any thread."""

    def __init__(
        self,
        on_error: Callable[[str, BaseException], None],
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
        hooks: PartitionHooks | None = None,
    ) -> None:
        """`on_error` gets a call's name and what it raised, on the thread that ran it."""
        self._on_error = on_error
        self._emit = emit
        self._clock = clock
        self.hooks = hooks or PartitionHooks()
        self._changed = threading.Condition()
        # Under the lock, all of it. Waiting calls in the order in which they came.
        self._waiting: deque[HookCall] = deque()
        self._running: dict[threading.Thread, HookCall] = {}
        # The one thread that takes calls; others end with the call that they run.
        self._current: threading.Thread | None = None
        self._threads: set[threading.Thread] = set()
        self._started = 0
        self._is_closed = False

    def submit(self, name: str, steps: Mapping[str, Callable[[], None]], order: Hashable = None) -> HookCall:
        """Queue a call of some functions, by name. Behind all of the same `order`, if it has one."""
        call = HookCall(name, steps, order)
        with self._changed:
            self._waiting.append(call)
            if self._current is None:
                self._start_thread()
            self._succeed()
            self._changed.notify_all()
        return call

    def open_epoch(
        self, partition: TopicPartition, opens: Callable[[], None] | None, let_records_run: Callable[[], None]
    ) -> None:
        """Queue what opens an epoch: the hook, then the handler."""
        steps: dict[str, Callable[[], None]] = {}
        if (on_assigned := self.hooks.on_assigned) is not None:
            steps["on_assigned"] = lambda: on_assigned(partition)
        if opens is not None:
            steps["open"] = opens
        # Last: no record runs before the user's own code has opened what it needs.
        steps["start"] = let_records_run
        self.submit(f"opening {partition}", steps, order=partition)

    def close_epoch(
        self, partition: TopicPartition, closes: Callable[[], None] | None, reason: str
    ) -> list[HookCall]:
        """Queue what closes an epoch: the handler, then the hook."""
        steps: dict[str, Callable[[], None]] = {}
        if closes is not None:
            steps["close"] = closes
        if reason == "lost":
            if (on_lost := self.hooks.on_lost) is not None:
                steps["on_lost"] = lambda: on_lost(partition)
        elif (on_revoked := self.hooks.on_revoked) is not None:
            steps["on_revoked"] = lambda: on_revoked(partition, reason)
        return [self.submit(f"closing {partition}", steps, order=partition)] if steps else []

    def wait(self, calls: Iterable[HookCall], deadline_s: float, exit_now: Callable[[], bool]) -> None:
        """Wait for calls to return, but not for those that an earlier one of their partition holds up."""
        for call in calls:
            while not call.done.wait(min(EXIT_CHECK_S, max(0.0, deadline_s - self._clock()))):
                if self._clock() >= deadline_s or exit_now():
                    return
                self.check()
                if self.is_held_up(call):
                    break

    def check(self) -> None:
        """Let calls go on that others hold up, and tell of those that hang, once each. Now and then."""
        with self._changed:
            self._succeed()
            hanging = [call for call in self._running.values() if not call.is_reported and self._hangs(call)]
            for call in hanging:
                call.is_reported = True
        for call in hanging:
            self._emit(UserCodeHangs(str(call), HANGS_S))

    def is_held_up(self, call: HookCall) -> bool:
        """Tell whether an earlier call of its order hangs, so that it is unknown when it will run."""
        with self._changed:
            return call.order is not None and any(
                other is not call and other.order == call.order and self._hangs(other)
                for other in self._running.values()
            )

    @property
    def problem(self) -> str | None:
        """Which call hangs, while it does. From any thread."""
        with self._changed:
            hanging = [
                f"{call} has not returned for {self._runs_s(call):.0f} s"
                for call in self._running.values()
                if self._hangs(call)
            ]
        if not hanging:
            return None
        return f"{', '.join(hanging)}: the partition waits until the call returns."

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether it is one of these. From any thread."""
        with self._changed:
            return thread in self._threads

    def close(self, timeout_s: float) -> list[str]:
        """Let the threads leave after what is queued; return the calls that still run after `timeout_s`.

        May be called again to wait longer.
        """
        ends_s = self._clock() + timeout_s
        while True:
            self.check()
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()
                busy = [str(call) for call in (*self._running.values(), *self._waiting)]
                if not busy or self._clock() >= ends_s:
                    break
                self._changed.wait(CLOSE_CHECK_S)
        if not busy:
            for thread in tuple(self._threads):
                thread.join(timeout_s)
        return busy

    def _hangs(self, call: HookCall) -> bool:
        return self._runs_s(call) >= HANGS_S

    def _runs_s(self, call: HookCall) -> float:
        return 0.0 if call.began_s is None else self._clock() - call.began_s

    def _succeed(self) -> None:
        """Start another thread where the current one has been in a call for long and others could run."""
        held = self._running.get(self._current) if self._current is not None else None
        if held is None or self._runs_s(held) < PATIENCE_S:
            return
        if len(self._threads) < THREADS_MAX and self._next_place() is not None:
            self._start_thread()

    def _start_thread(self) -> None:
        self._started += 1
        name = "ehkafka-hooks" if self._started == 1 else f"ehkafka-hooks-{self._started}"
        self._current = threading.Thread(target=self._main, name=name, daemon=True)
        self._threads.add(self._current)
        self._current.start()

    def _next_place(self) -> int | None:
        """Return the place of the first waiting call that no running one of its order precedes."""
        orders = {call.order for call in self._running.values()} - {None}
        return next((place for place, call in enumerate(self._waiting) if call.order not in orders), None)

    def _main(self) -> None:
        thread = threading.current_thread()
        while (call := self._take(thread)) is not None:
            try:
                call.run()
            # sys.exit() too: without this thread no later assignment would ever open.
            except BaseException as error:
                self._on_error(call.name, error)
            finally:
                self._end(thread, call)

    def _take(self, thread: threading.Thread) -> HookCall | None:
        with self._changed:
            while self._current is thread and not (self._is_closed and not self._waiting):
                place = self._next_place()
                if place is not None:
                    call = self._waiting[place]
                    del self._waiting[place]
                    call.began_s = self._clock()
                    self._running[thread] = call
                    return call
                self._changed.wait()
            self._threads.discard(thread)
            return None

    def _end(self, thread: threading.Thread, call: HookCall) -> None:
        with self._changed:
            del self._running[thread]
            self._changed.notify_all()
        call.done.set()
