"""The end of a run: its condition, the request to stop, the error that made it fail.

`RunEnding` is one run's, and any thread may call it. `checked_until` reads `App.run(until=…)`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ehkafka.errors import ConfigurationError, EhkafkaError, EngineError, describe
from ehkafka.run import signals
from ehkafka.settings import drain_of
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Drain

UntilWord = Literal["caught_up"]

_SETTLE_S_MAX: Final = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class RunUntil:
    """A run ends when it has caught up; what waits for longer than `settle_s` fails it.

    `ends` are the logs' ends that are known before: all members of a supervisor have the same.
    """

    settle_s: float
    ends: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)


def checked_until(until: object, settle_s: object) -> RunUntil | None:
    """Return what was asked for, None for a run without an end. Raises `ConfigurationError`."""
    is_number = isinstance(settle_s, int | float) and not isinstance(settle_s, bool)
    if not is_number or not 0 < settle_s <= _SETTLE_S_MAX:  # type: ignore[operator]
        raise ConfigurationError(
            f"settle_s={settle_s!r:.80}: give seconds above 0 and up to {_SETTLE_S_MAX:.0f}."
        )
    if until is None:
        return None
    if until != "caught_up":
        raise ConfigurationError(
            f"until={until!r:.80} is unknown; use 'caught_up', or None to run until a stop."
        )
    return RunUntil(float(settle_s), signals.known_ends)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request to stop within `timeout_s`, so by `deadline_s` (monotonic). `drain` says what is finished."""

    reason: str
    drain: Drain
    timeout_s: float
    deadline_s: float


class RunEnding:
    """The first request to stop, the first failure and the end of one run."""

    def __init__(self, app: AppOptions) -> None:
        self._app = app
        self._lock = threading.Lock()
        # Under the lock: the first fatal error, and whether it is too late for another one.
        self.failure: EhkafkaError | None = None
        self._is_reported = False
        self.request: StopRequest | None = None
        self._exit_now = threading.Event()
        self._done = threading.Event()
        # Called without arguments at the first fatal error and at the end, by any thread: it must return
        # at once. Set before the start.
        self.on_change: Callable[[], None] = lambda: None

    def request_stop(
        self, reason: str, *, drain: Drain | bool | None = None, timeout_s: float | None = None
    ) -> StopRequest:
        """Ask for a stop and return the request that counts, which is the first; safe in a signal handler.

        What is not said is taken from the settings. Raises `ConfigurationError` for an unknown `drain`.
        """
        settings = self._app.settings
        drain = drain_of(settings.drain if drain is None else drain)
        timeout_s = settings.stop_s if timeout_s is None else timeout_s
        if self.request is None:
            deadline_s = self._app.clock.now_s() + timeout_s
            self.request = StopRequest(reason, drain=drain, timeout_s=timeout_s, deadline_s=deadline_s)
        return self.request

    def stop_from_child(self, drain: Drain | bool | None, timeout_s: float | None) -> None:
        """Ask for a stop as a handler in a worker process did."""
        self.request_stop("a worker process called stop()", drain=drain, timeout_s=timeout_s)

    def exit_now(self) -> None:
        """Wait for nothing any more: commit what is finished and leave."""
        self.request_stop("asked to stop at once", drain="running", timeout_s=0.0)
        self._exit_now.set()

    def fail(self, error: EhkafkaError) -> None:
        """End the run with an error, without a drain: what runs ends, what is queued is redelivered."""
        with self._lock:
            # What fails after the end, such as a hook that was left running, changes nothing any more.
            is_first = self.failure is None and not self._is_reported
            if is_first:
                self.failure = error
        self.request_stop(f"{type(error).__name__}", drain="running")
        if is_first:
            self.on_change()

    def worker_died(self, error: BaseException) -> None:
        """End the run because a thread of ours has died."""
        self.fail(death_of("A worker thread", error))

    def report(self) -> int:
        """Return the exit code; from now on nothing fails the run."""
        with self._lock:
            self._is_reported = True
            return 0 if self.failure is None else self.failure.exit_code

    def end(self) -> None:
        """Let go of all who wait for the end."""
        self._done.set()
        self.on_change()

    @property
    def is_stopping(self) -> bool:
        """True from the first request to stop."""
        return self.request is not None

    @property
    def is_at_once(self) -> bool:
        """True once nothing is to be waited for."""
        return self._exit_now.is_set()

    @property
    def is_done(self) -> bool:
        """True when the run has ended."""
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run has ended; False when the time-out came first."""
        return self._done.wait(timeout_s)


def death_of(what: str, error: BaseException) -> EhkafkaError:
    """Return what ends a run whose thread died: the error itself, if it says what to do."""
    if isinstance(error, EhkafkaError):
        return error
    failure = EngineError(f"{what} failed: {error!r}. Please report this error.")
    failure.__cause__ = error
    return failure


def fatal_in_user_code(where: str, error: BaseException) -> EhkafkaError | None:
    """Return what ends a run whose hook raised; None where it goes on without it."""
    if where.startswith("opening"):
        failure = EhkafkaError(
            f"{where} failed: {ended(describe(error))} No record of the partition was handled. Fix the hook."
        )
    elif not isinstance(error, Exception):
        failure = EhkafkaError(
            f"{where} tried to end the process: {ended(describe(error))} To stop the app, call App.stop()."
        )
    else:
        return None
    failure.__cause__ = error
    return failure
