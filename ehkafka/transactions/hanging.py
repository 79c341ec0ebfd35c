"""Calls of the client that may never return.

librdkafka waits without an end in `send_offsets_to_transaction`, whatever time-out it is given, where the
group's coordinator was away and is still remembered (confluentinc/librdkafka#5456, #5511). Each such call has
a thread of its own, which is left alone with its client: a client is never destroyed while a thread is
inside.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

HANGS_S: Final = 10.0
"""A call that has not returned by then may never do."""

HANGS: Final = "the client does not return from a call (librdkafka#5456)"

# Between two looks whether its result is still wanted.
CHECK_S: Final = 0.1


class HangsError(Exception):
    """A call has not returned in time, and perhaps never does."""


def call_within(call: Callable[[], T], timeout_s: float, is_over: Callable[[], bool]) -> T:
    """Make a call; return what it returns, or raise what it raises.

    `HangsError` where it has not returned in time, or once `is_over` says that nothing waits for it any more.
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
