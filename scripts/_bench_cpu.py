"""Who used the CPU while something was measured, from /proc: the measured process, the broker, others.

On a shared machine records per second lie and CPU seconds hardly do; how much others took says how far to
trust either. Read by the benchmark's driver, whose descendants are all that belongs to the measurement: to
look from within would wait for the interpreter's lock that handlers hold.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1
# Of the machine's CPU time. Beyond it a figure is marked, and measured once more.
OTHERS_SHARE_MAX = 0.1


@dataclass(frozen=True, slots=True)
class CpuSample:
    """What each process has used since its start, its ended children included; what the machine did."""

    at_s: float
    # By process id, in seconds.
    spent_s: dict[int, float]
    children: dict[int, list[int]]
    # Of all cores together; what the host of a virtual machine kept for others stands apart.
    busy_s: float
    stolen_s: float

    def of_tree(self, root: int) -> float:
        """Return the CPU seconds of a process and of all that it started; 0 where it is gone."""
        return sum(self.spent_s.get(process, 0.0) for process in self._tree(root))

    def of_all(self) -> float:
        """Return the CPU seconds of all processes that can be seen."""
        return sum(self.spent_s.values())

    def _tree(self, root: int) -> Iterator[int]:
        yield root
        for child in self.children.get(root, ()):
            yield from self._tree(child)


def take_sample() -> CpuSample | None:
    """Return what the CPUs have done until now; None on a system without /proc."""
    try:
        ticks = [int(word) for word in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return None
    spent_s: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for folder in os.listdir(PROC):  # noqa: PTH208 - names are wanted, hundreds of times
        if not folder.isdecimal():
            continue
        try:
            text = (PROC / folder / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile: its parent has its time
        words = text[text.rfind(")") + 2 :].split()
        spent_s[int(folder)] = sum(map(int, words[11:15])) / TICKS_PER_S
        children[int(words[1])].append(int(folder))
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    busy_s = (user + nice + system + irq + softirq) / TICKS_PER_S
    return CpuSample(time.monotonic(), spent_s, children, busy_s, steal / TICKS_PER_S)


def usage(
    before: CpuSample | None, after: CpuSample | None, *, measured: int, broker: int, records: int
) -> dict[str, float]:
    """Return what `measured` used between two samples, and which shares of all cores the others had.

    `others_share` is what neither this process nor anything that it started has used, the machine's host
    included. Empty where nothing is known.
    """
    if before is None or after is None or after.at_s <= before.at_s:
        return {}
    cores_s = (after.at_s - before.at_s) * CORES
    own_s, broker_s, ours_s = (
        after.of_tree(root) - before.of_tree(root) for root in (measured, broker, os.getpid())
    )
    stolen_s = after.stolen_s - before.stolen_s
    # The sum of what processes used is exact, and blind for those outside of a container; the machine's own
    # sum sees them, but only samples.
    seen_s = after.of_all() - before.of_all() - ours_s
    others_s = max(seen_s, after.busy_s - before.busy_s - ours_s, 0.0) + stolen_s
    return {
        "cpu_s_per_million": own_s / records * 1e6 if records else 0.0,
        "broker_share": broker_s / cores_s,
        "others_share": others_s / cores_s,
        "stolen_share": stolen_s / cores_s,
    }
