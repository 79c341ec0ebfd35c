"""Calls of the client that may never return.

If the group's coordinator was away and librdkafka still remembers it, `send_offsets_to_transaction` waits
without end, whatever time-out it has (confluentinc/librdkafka#5456, #5511). So each such call has a
thread of its own. A thread that hangs keeps its client: a client must not be destroyed during a call.

A time-out proves something only if this process ran meanwhile. After it was suspended (a paused machine,
SIGSTOP) an answer may be there that it has not read, and another process may have taken over.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

HANGS_S: Final = 10.0
"""A call that has not returned after this time may never return."""

HANGS: Final = "the client does not return from a call (librdkafka#5456)"

# The caller checks after this time whether the result is still needed.
CHECK_S: Final = 0.1

# Threads note that they run every `CHECK_S`. With a longer gap than this the process was suspended.
STILL_S: Final = 2.0


class RunningTime:
    """Measures how long this process has run since the start of a call, or since its last suspension."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.began_s = self._since_s = self._noted_s = clock()

    def note_running(self) -> None:
        """Note that the process runs. After a gap of more than `STILL_S` the time starts anew."""
        now_s = self._clock()
        if now_s - self._noted_s > STILL_S:
            self._since_s = now_s
        self._noted_s = now_s

    @property
    def ran_s(self) -> float:
        """Return the seconds in which it ran without a gap, up to now."""
        self.note_running()
        return self._noted_s - self._since_s


class HangsError(Exception):
    """A call has not returned in time, and may never return."""


def call_within(call: Callable[[], T], timeout_s: float, is_over: Callable[[], bool]) -> T:
    """Make a call; return its result, or raise its exception.

    Raises `HangsError` if it has not returned while this process ran for so long, or when `is_over`
    tells that it is not needed any more.
    """
    returned: list[T] = []
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # raised again by the thread that waits
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="ehkafka-transaction-call", daemon=True).start()
    running = RunningTime(time.monotonic)
    while not done.wait(min(CHECK_S, timeout_s)):
        if running.ran_s >= timeout_s or is_over():
            raise HangsError
    if raised:
        raise raised[0]
    return returned[0]
