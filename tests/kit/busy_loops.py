"""Programs that do nothing but keep cores busy."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Ends by itself, whatever becomes of the test.
BURN = "import sys, time\nends = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < ends: pass"


@contextmanager
def busy_loops(count: int, seconds_max: float) -> Iterator[None]:
    """Run so many of them while the block lasts."""
    programs = [subprocess.Popen([sys.executable, "-c", BURN, str(seconds_max)]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()
