"""Which cores this process may use: its affinity, and the CPU quota of its control group (v1 and v2).

Reads `/proc` and `/sys/fs/cgroup` once, below a root that tests replace. What cannot be read limits nothing.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOT = Path("/")


def usable_cores(root: Path = _ROOT, affinity: int | None = None) -> int:
    """Return the number of cores, at least 1. Of a part of a core that a quota gives, one is used."""
    cores = _affinity() if affinity is None else affinity
    quota = min(_quotas(root), default=math.inf)
    return max(1, min(cores, math.ceil(quota) if quota < cores else cores))


def one_each(members: int, root: Path = _ROOT, affinity: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return a core for each member; none where there are more or fewer of them than cores, or a quota.

    Who hands over Python's lock between its threads is moved from core to core, and two members that are meet
    on one while the other one idles: with handlers of 1 ms of Python they did 1.6 times what one does, and
    each on a core of its own 2.0 times.
    """
    cores = tuple(_cores() if affinity is None else affinity)
    quota = min(_quotas(root), default=math.inf)
    return cores if 1 < members == len(cores) <= quota else ()


def keep_to(core: int) -> None:
    """Let this thread, and all that it starts, run on one core; on any, where that is not allowed."""
    with suppress(OSError):
        os.sched_setaffinity(0, {core})


def _cores() -> list[int]:
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        return []


def _affinity() -> int:
    return len(_cores()) or os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Yield the quotas, in cores, of this process's group and of all above it: the least one holds."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _above(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            for mount in (controllers, "cpu"):  # some systems mount it as `cpu,cpuacct`
                yield from _above(root / "sys/fs/cgroup" / mount, path, _quota_v1)


def _above(mount: Path, path: str, quota: object) -> Iterator[float]:
    assert callable(quota)
    # Inside a container the path is often the one outside of it, which is not there; the mount itself is.
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    for depth in range(len(parts), -1, -1):
        found = quota(mount.joinpath(*parts[:depth]))
        if found is not None:
            yield found


def _quota_v2(folder: Path) -> float | None:
    words = _text(folder / "cpu.max").split()  # "150000 100000", or "max 100000"
    return _ratio(words[0], words[1]) if len(words) == 2 else None


def _quota_v1(folder: Path) -> float | None:
    quota = _text(folder / "cpu.cfs_quota_us")  # -1: none
    return _ratio(quota, _text(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    try:
        ratio = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return ratio if ratio > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
