"""Real threads that run one at a time, line by line, in an order that a seed draws.

So a test meets interleavings which the interpreter makes once in a million records, and meets them again. A
thread is stepped from `adopt` on, in the files that the stepper is given; elsewhere it runs through. What may
block must be a lock of the stepper's.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

# How often each thread gets its turn is drawn anew after some steps: some threads pause for very long.
WEIGHTS_STEPS = (10, 40, 200)
WEIGHTS = (0.0, 0.02, 1.0, 1.0, 10.0)
# How many steps of others a thread may miss in a function where a pause is worth most.
PAUSES_STEPS = (20, 60)
PAUSES_SHARE = 0.1


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Over(BaseException):
    """Ends the threads of a history that is over."""


class _Thread:
    """One stepped thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.go = _locked()
        self.weight = 1.0
        self.rests_until = 0
        self.waits_for: SteppedLock | None = None
        self.is_done = False
        self.error: BaseException | None = None

    @property
    def is_ready(self) -> bool:
        return not self.is_done and (self.waits_for is None or not self.waits_for.is_locked)


class SteppedLock:
    """A lock for stepped threads."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self.is_locked = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; a thread that must wait gets no turn until it is free."""
        assert timeout == -1
        while self.is_locked:
            if not blocking:
                return False
            self._stepper.pause(self)
        self.is_locked = True
        return True

    def release(self) -> None:
        """Free it."""
        if not self.is_locked:
            raise RuntimeError("release unlocked lock")
        self.is_locked = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Stepper:
    """Lets one thread at a time do one line."""

    def __init__(self, seed: int, files: Iterable[str], pausing: Iterable[str] = ()) -> None:
        """`pausing`: functions in which threads often pause for long, such as where they fall asleep."""
        self.random = random.Random(seed)
        self.steps = 0
        self._drawn_next = 0
        self._is_over = False
        self._files = frozenset(files)
        self._pausing = frozenset(pausing)
        self._threads: list[_Thread] = []
        self._here = threading.local()
        self._back = _locked()

    def lock(self, *, locked: bool = False) -> SteppedLock:
        """Make a lock."""
        lock = SteppedLock(self)
        lock.is_locked = locked
        return lock

    def start(self, name: str, target: Callable[[], object]) -> None:
        """Start a stepped thread; it does nothing before `run`."""
        threads = len(self._threads) + 1
        threading.Thread(target=self.adopt, args=(name, target), name=name, daemon=True).start()
        self.wait_for(threads)

    def wait_for(self, threads: int) -> None:
        """Wait until so many threads were ever adopted."""
        event = threading.Event()
        while len(self._threads) < threads:
            event.wait(1e-3)

    def adopt(self, name: str, target: Callable[[], object]) -> None:
        """Step this thread while it runs `target`."""
        thread = _Thread(name)
        self._here.thread = thread
        self._threads.append(thread)
        thread.go.acquire()
        try:
            sys.settrace(self._trace)
            target()
        except _Over:
            pass
        except BaseException as error:  # raised by `run`
            thread.error = error
        finally:
            sys.settrace(None)
            thread.is_done = True
            if not self._is_over:
                self._back.release()

    def pause(self, waits_for: SteppedLock | None = None) -> None:
        """Let another thread have its turn. Called by a stepped thread."""
        thread = self._here.thread
        if not self._is_over:
            thread.waits_for = waits_for
            self._back.release()
            thread.go.acquire()
            thread.waits_for = None
        if self._is_over:
            raise _Over

    @property
    def others_rest(self) -> bool:
        """Whether every stepped thread but this one waits for a lock, or has ended."""
        return not any(thread.is_ready for thread in self._threads if thread is not self._here.thread)

    def run(self, steps_max: int) -> str:
        """Run until all threads have ended; return why not, or nothing. Raises what a thread raised."""
        try:
            return self._run(steps_max)
        finally:
            self._is_over = True
            for thread in self._threads:
                if not thread.is_done:
                    thread.go.release()

    def _run(self, steps_max: int) -> str:
        while self.steps < steps_max:
            ready = [thread for thread in self._threads if thread.is_ready]
            if not ready:
                left = [thread.name for thread in self._threads if not thread.is_done]
                return f"asleep for ever: {left}" if left else ""
            if self.steps >= self._drawn_next:
                self._drawn_next = self.steps + self.random.choice(WEIGHTS_STEPS)
                for thread in self._threads:
                    thread.weight = self.random.choice(WEIGHTS)
            weights = [thread.weight if thread.rests_until <= self.steps else 0.0 for thread in ready]
            thread = self.random.choices(ready, [max(weight, 1e-6) for weight in weights])[0]
            self.steps += 1
            thread.go.release()
            self._back.acquire()
            if thread.error is not None:
                raise thread.error
        return f"not done after {steps_max} steps"

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._step if frame.f_code.co_filename in self._files else None

    def _step(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            if frame.f_code.co_name in self._pausing and self.random.random() < PAUSES_SHARE:
                self._here.thread.rests_until = self.steps + self.random.choice(PAUSES_STEPS)
            self.pause()
        return self._step
