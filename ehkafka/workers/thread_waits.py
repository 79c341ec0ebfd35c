"""How often one thread has waited for something, counted by the system and read by others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def waits_of_this_thread() -> Callable[[], int | None]:
    """Return what counts, on any thread, how often the calling thread has given up its core to wait.

    A thread that computes does so for the interpreter's lock alone, each few milliseconds; one that sleeps or
    asks a server once a call at least, however busy the machine is. None where the system does not count it
    (Windows, macOS), and after the thread has ended.
    """
    status = Path(f"/proc/self/task/{threading.get_native_id()}/status")

    def waits() -> int | None:
        try:
            lines = status.read_bytes().splitlines()
        except OSError:  # there is no such file, or no such thread any more
            return None
        counts = (line.split()[1] for line in lines if line.startswith(b"voluntary_ctxt_switches:"))
        return int(next(counts, b"0"))

    return waits
