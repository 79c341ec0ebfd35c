"""How much memory a process had at once."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

OWN_STATUS = Path("/proc/self/status")


def peak_memory_kib(status: Path = OWN_STATUS) -> int:
    """Return the most memory that a process had at once; what it has started is not counted."""
    if status.exists():  # what getrusage tells there begins with the memory of the parent process
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1])  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
