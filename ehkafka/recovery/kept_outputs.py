"""Refused outputs whose records' dead letters are refused as well: they wait for the next start.

Their records stay uncommitted. The keys of all records that wait behind them are on hold: otherwise their
outputs would use up the room for outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.lanes.decision import HoldHead
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Output
    from ehkafka.outputs.unacknowledged import Unacknowledged


class Kept(NamedTuple):
    """A kept output, and the reason that health shows."""

    output: Output
    why: str


class KeptOutputs:
    """One handler's. Any thread adds and asks; the one that watches the run checks."""

    def __init__(self, outputs: Unacknowledged, hold: Callable[[Entry, HoldHead], None]) -> None:
        """`hold` starts nothing more of a record's key."""
        self._outputs = outputs
        self._hold = hold
        # By the output's `id`, oldest first.
        self._kept: dict[int, Kept] = {}

    def add(self, output: Output, why: str) -> None:
        """Keep an output, and hold the keys of its records. Of several reasons the first one is kept."""
        self._kept.setdefault(id(output), Kept(output, why))
        self._hold_keys(output, why)

    def check(self) -> None:
        """Hold the keys of records whose outputs wait behind a kept one; forget those of ended epochs."""
        for place, (first, why) in list(self._kept.items()):
            if first.has_ended:
                del self._kept[place]
                continue
            for output in self._outputs.behind(first):
                self._hold_keys(output, why)

    def _hold_keys(self, output: Output, why: str) -> None:
        for entry in output.entries:
            self._hold(entry, HoldHead(why, letter_refused=True))

    @property
    def problem(self) -> str | None:
        """What is wrong, while a kept output is of a partition that is ours."""
        found = [one for one in list(self._kept.values()) if not one.output.has_ended]
        if not found:
            return None
        more = f" And {counted(len(found) - 1, 'more output')} likewise." if len(found) > 1 else ""
        return found[0].why + more
