"""Reaps what nobody else does: grandchildren whose parent has ended fall to a supervisor that is process 1.

A container's first process has that duty; without it each ended worker process of a killed member would stay
as a zombie. Main thread only. A member's own end is left to whoever waits for it.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_PR_GET_CHILD_SUBREAPER: Final = 37


def must_reap() -> bool:
    """Tell whether orphans fall to this process: as process 1, or as a subreaper."""
    if os.getpid() == 1:
        return True
    found = ctypes.c_int(0)
    try:
        asked = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    except (OSError, AttributeError):  # not on Linux
        return False
    return asked == 0 and bool(found.value)


def reap(own: Collection[int]) -> list[int]:
    """Reap every child that has ended and is none of `own`; return their process ids."""
    reaped: list[int] = []
    while True:
        try:
            # Only looked at: one of ours keeps its exit code for the one who asks it.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return reaped
        # One of ours stands before the others until it is waited for, which the next turn does.
        if found is None or found.si_pid in own:
            return reaped
        os.waitpid(found.si_pid, 0)
        reaped.append(found.si_pid)
