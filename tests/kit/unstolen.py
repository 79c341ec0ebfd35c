"""Time as a virtual machine has it: without what its host kept for others while it was wanted here.

For tests of deadlines: a bound of a second says something of the code only if the machine had that second.
Linux alone tells; elsewhere this is the monotonic clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
# The first line: cpu, user, nice, system, idle, iowait, irq, softirq, steal, …
_STEAL = 8


def unstolen_s() -> float:
    """Return monotonic seconds less the stolen ones of all CPUs together, which may even run backwards."""
    return time.monotonic() - _stolen_s()


def _stolen_s() -> float:
    try:
        words = _STAT.read_text().split("\n", 1)[0].split()
    except OSError:
        return 0.0
    return int(words[_STEAL]) / os.sysconf("SC_CLK_TCK") if len(words) > _STEAL else 0.0
