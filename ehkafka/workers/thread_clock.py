"""The CPU time that one thread has used, read by others."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def clock_of_this_thread() -> Callable[[], float | None]:
    """Return what tells, on any thread, how many seconds of CPU time the calling thread has used so far.

    None where the system cannot tell (Windows, macOS), and after the thread has ended.
    """
    find = getattr(time, "pthread_getcpuclockid", None)
    if find is None:
        return lambda: None
    clock = find(threading.get_ident())

    def cpu_s() -> float | None:
        try:
            return time.clock_gettime(clock)
        except OSError:  # it has ended
            return None

    return cpu_s
