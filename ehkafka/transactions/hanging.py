"""Calls of the client that may never return.

If the group's coordinator was away and librdkafka still remembers it, `send_offsets_to_transaction` waits
without end, whatever time-out it has (confluentinc/librdkafka#5456, #5511). So each such call has a
thread of its own. A thread that hangs keeps its client: a client must not be destroyed during a call.
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


class HangsError(Exception):
    """A call has not returned in time, and may never return."""


def call_within(call: Callable[[], T], timeout_s: float, is_over: Callable[[], bool]) -> T:
    """Make a call; return its result, or raise its exception.

    Raises `HangsError` if it has not returned in time, or when `is_over` tells that it is not needed any
    more.
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
    ends_s = time.monotonic() + timeout_s
    while not done.wait(min(CHECK_S, timeout_s)):
        if time.monotonic() >= ends_s or is_over():
            raise HangsError
    if raised:
        raise raised[0]
    return returned[0]
