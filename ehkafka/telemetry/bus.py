"""The event bus: takes events from every thread, counts them at once, tells them on a thread of its own.

Counting happens inside `emit`, under a lock that is held for less than a microsecond and never while
foreign code runs, so the counters are exact and current whatever a hook does. Logging and hooks are
foreign code: they run on the daemon thread `ehkafka-telemetry` alone, and may raise, block or hang
without the data path noticing. What they cannot keep up with is dropped, counted and reported.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.events import Event
from ehkafka.events.event import COUNTERS, Failure
from ehkafka.telemetry.log_lines import LogLines
from ehkafka.telemetry.thinning import WINDOW_S
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ehkafka.events import CounterName, Hook

# A minute of a hook that hangs, at well over a hundred events per second; a few MB at most.
QUEUED_EVENTS_MAX = 10_000
# Of these so many keep the error that they tell of, and with it its frames and the records in them.
QUEUED_EXCEPTIONS_MAX = 1_000


class EventBus:
    """Counts events on the thread that emits them; logs them and calls the hooks on its own thread.

    At most `queued_events_max` events wait, the one being reported included. `now_s` is a monotonic clock.
    Events emitted before `start` wait for it.
    """

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        *,
        queued_events_max: int = QUEUED_EVENTS_MAX,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if queued_events_max < 1:
            raise ConfigurationError(f"queued_events_max must be at least 1, not {queued_events_max}.")
        self._queued_events_max = queued_events_max
        # Re-entrant, because a signal handler or a finalizer may emit while its own thread does. The
        # additions below then stay exact: CPython interrupts a thread at calls and loops, never between
        # the read and the write of `+=` on an attribute or a dict of strings.
        self._lock = threading.RLock()
        self._counts: defaultdict[str, int] = defaultdict(int, dict.fromkeys(_names_of_counters(), 0))
        # Any thread puts under the lock, the telemetry thread takes; `None` is the end.
        self._queue: SimpleQueue[Event | None] = SimpleQueue()
        # All under the lock. Accepted, and reported to the log and every hook; the difference is what waits.
        self._accepted_events = 0
        self._reported_events = 0
        # Of the reported ones, those that still wait for the log line that they share.
        self._unwritten_events = 0
        self._closed = False
        # Set when `close` has waited long enough: nothing more is reported, the numbers above stand.
        self._gave_up = False
        # Replaced, never changed: the telemetry thread reads it without the lock.
        self._hooks: tuple[Hook, ...] = ()
        self._thread: threading.Thread | None = None
        # The rest is written by the telemetry thread alone. `close` reads who is being reported.
        self._reporting = ""
        self._logger = logging.getLogger("ehkafka")
        self._now_s = now_s
        self._lines = LogLines(self._logger, now_s)
        self._errors_logged: set[tuple[int, str]] = set()
        self._drops_reported = 0
        self._drops_seen_s: float | None = None
        for hook in hooks:
            self.add_hook(hook)

    def emit(self, event: Event) -> None:
        """Count an event and pass it on. From any thread; never waits for a hook or log, never raises."""
        if (
            isinstance(event, Failure)
            and self._accepted_events - self._reported_events > QUEUED_EXCEPTIONS_MAX
        ):
            event = event.without_exception()
        with self._lock:
            self._counts[event.counter()] += 1
            if self._closed:
                return
            if self._accepted_events - self._reported_events < self._queued_events_max:
                self._accepted_events += 1
                self._queue.put(event)
            else:
                self._counts["events_dropped"] += 1

    def count(self, name: CounterName, n: int = 1) -> None:
        """Add to a plain counter. From any thread."""
        with self._lock:
            self._counts[name] += n

    def counters_snapshot(self) -> Mapping[str, int]:
        """Return all counters as of now, those that are zero included, as a copy."""
        with self._lock:
            return dict(self._counts)

    def add_hook(self, hook: Hook) -> None:
        """Hand every event to this hook too, from the next one reported. From any thread."""
        if not callable(getattr(hook, "on_event", None)):
            raise ConfigurationError(
                f"A hook needs a method on_event(event), but {type(hook).__qualname__} has none: add it."
            )
        with self._lock:
            self._hooks = (*self._hooks, hook)

    def start(self) -> None:
        """Start the telemetry thread. Raises `EngineError` if it was started or closed before."""
        with self._lock:
            if self._thread is not None or self._closed:
                raise EngineError("An event bus cannot be started twice, or after close(): make a new one.")
            self._thread = threading.Thread(target=self._run, name="ehkafka-telemetry", daemon=True)
        self._thread.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether it is the telemetry thread."""
        return thread is self._thread

    def close(self, timeout_s: float) -> int:
        """Tell what waits, for at most `timeout_s` seconds, then give up; later events are only counted.

        Returns how many events were not reported to the log and all hooks. They are added to
        `events_dropped` and reported on standard error: the logger may be what is stuck, and waiting
        for it here would break the time limit. Raises `EngineError` when a hook calls it.
        """
        thread = self._thread
        if thread is threading.current_thread():
            raise EngineError(
                "close() was called from a hook, for which close() waits: ask the app to stop instead."
            )
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if thread is not None and thread.ident is not None:
            thread.join(min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))
        return self._give_up(timeout_s)

    def _give_up(self, timeout_s: float) -> int:
        with self._lock:
            unreported = self._accepted_events - self._reported_events + self._unwritten_events
            first, self._gave_up = not self._gave_up, True
            if first:
                self._counts["events_dropped"] += unreported
            dropped = self._counts["events_dropped"]
        if first and unreported:
            who = "start() was never called" if self._thread is None else f"{self._reporting} had not ended"
            _write_to_stderr(
                f"{unreported} telemetry events were not reported within {seconds(timeout_s)}: {who}. Let "
                f"the slow hook put events into its own queue. Dropped since the start: {dropped}."
            )
        return unreported

    def _run(self) -> None:
        while (event := self._next()) is not None:
            self._report(event)
            with self._lock:
                if self._gave_up:
                    return
                self._reported_events += 1
                self._unwritten_events = self._lines.gathered_events
            self._report_drops()
        self._write_owed(everything=True)

    def _write_owed(self, *, everything: bool = False) -> None:
        self._call(
            "the log", self._lines, lambda: self._lines.write_owed(everything=everything), "repeated warnings"
        )
        with self._lock:
            self._unwritten_events = self._lines.gathered_events

    def _next(self) -> Event | None:
        while True:
            try:
                return self._queue.get(timeout=self._lines.patience_s)
            except Empty:
                self._write_owed()

    def _report(self, event: Event) -> None:
        kind = type(event).__name__
        self._call("the log", self._lines, lambda: self._lines.write(event), kind)
        for hook in self._hooks:
            if self._gave_up:
                return
            self._call(_name(hook), hook, partial(_hand_over, hook, event), kind)

    def _call(self, name: str, listener: object, call: Callable[[], None], kind: str) -> None:
        self._reporting = name
        try:
            call()
        # Not only `Exception`: a hook's sys.exit() must not end the telemetry.
        except BaseException as error:
            self.count("hook_errors")
            self._log_error_once(name, listener, error, kind)

    def _log_error_once(self, name: str, listener: object, error: BaseException, kind: str) -> None:
        # By the names of its class: holding on to the class could keep a whole module alive.
        which = (id(listener), f"{type(error).__module__}.{type(error).__qualname__}")
        if which in self._errors_logged:
            return
        self._errors_logged.add(which)
        self._log(
            logging.ERROR,
            f"{name} raised {type(error).__qualname__} on {kind}; records are handled as before. Fix the "
            f"hook; further errors are only counted, in hook_errors.",
            error,
        )

    def _report_drops(self) -> None:
        with self._lock:
            dropped = self._counts["events_dropped"]
            queued = self._accepted_events - self._reported_events
        if dropped == self._drops_reported:
            return
        now_s = self._now_s()
        if self._drops_seen_s is None:
            self._drops_seen_s = now_s
        # Half empty is recovered, one free place is not. A queue that never recovers is reported, too.
        overdue = now_s - self._drops_seen_s >= WINDOW_S
        if overdue or queued <= self._queued_events_max // 2:
            new, self._drops_reported, self._drops_seen_s = dropped - self._drops_reported, dropped, None
            self._log(
                logging.WARNING,
                f"{new} telemetry events were counted but neither logged nor handed to hooks: a hook or "
                f"log handler was too slow for the queue of {self._queued_events_max}. Let the hook or log "
                f"handler put events into its own queue.",
            )

    def _log(self, level: int, line: str, error: BaseException | None = None) -> None:
        self._reporting = "the log"
        try:
            self._logger.log(level, line, exc_info=error)
        except BaseException:
            self.count("hook_errors")
            _write_to_stderr(line)


def _name(hook: Hook) -> str:
    # Not its repr, which may hold what must not be logged.
    return f"hook {type(hook).__qualname__}"


def _hand_over(hook: Hook, event: Event) -> None:
    hook.on_event(event)


def _names_of_counters() -> list[str]:
    return [*COUNTERS, *_names_of_kinds(Event)]


def _names_of_kinds(kind: type[Event]) -> set[str]:
    below = kind.__subclasses__()
    return {name for one in below for name in _names_of_kinds(one)} if below else {kind.counter()}


def _write_to_stderr(line: str) -> None:
    """Say what the log cannot be trusted with; a process without standard error has only the counters."""
    # A closed file or a broken pipe.
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"ehkafka: {line}\n")
