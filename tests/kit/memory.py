"""How much memory a process and its children have in use, and how fast that grows.

Reads Linux's /proc; any thread. The slope is pure.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE_MB = resource.getpagesize() / 1e6
_HOUR_S = 3_600.0


def tree_mb(pid: int) -> float:
    """Return the resident memory of a process and all below it in MB; 0 for one that is gone.

    Pages that several of them share are counted for each.
    """
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * _PAGE_MB + sum(tree_mb(int(child)) for line in lists for child in line.split())


def slope_mb_per_hour(samples: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of the straight line that fits (seconds, MB) best; None for fewer than two moments."""
    count = len(samples)
    mean_s = sum(at_s for at_s, _ in samples) / max(count, 1)
    mean_mb = sum(mb for _, mb in samples) / max(count, 1)
    spread = sum((at_s - mean_s) ** 2 for at_s, _ in samples)
    if spread == 0.0:
        return None
    return _HOUR_S * sum((at_s - mean_s) * (mb - mean_mb) for at_s, mb in samples) / spread
