"""Calls of the client that may never return.

librdkafka waits without an end in `send_offsets_to_transaction`, whatever time-out it is given, where the
group's coordinator was away and is still remembered (confluentinc/librdkafka#5456, #5511). Each such call has
a thread of its own, which is left alone with its client: a client is never destroyed while a thread is
inside.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


HANGS_S: Final = 10.0
"""A call that has not returned by then may never do."""


class HangsError(Exception):
    """A call has not returned in time, and perhaps never does."""


def call_within(call: Callable[[], object], timeout_s: float) -> None:
    """Make a call and raise what it raises; `HangsError` where it has not returned in time."""
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # raised again by whoever waits
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="ehkafka-transaction-call", daemon=True).start()
    if not done.wait(timeout_s):
        raise HangsError
    if raised:
        raise raised[0]
