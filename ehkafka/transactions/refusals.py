"""Outputs that the broker refuses, until their handler's rules have decided on them.

Their records stay out of each transaction meanwhile, and with them what is above in their partitions. The
transactions' thread adds and looks; judges answer on any thread; the poll thread asks for bounds.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from ehkafka.outputs.output import places_of
from ehkafka.transactions.search import Suspect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.output import Output, OutputRefusedError

_UNDECIDED = float("inf")


class Refusals:
    """Knows them by the `Suspect`s that are their sources."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Those that wait, or waited when `lowest` looked last. Under the lock.
        self._waiting: list[Suspect] = []

    def add(self, output: Output, error: OutputRefusedError) -> None:
        """Take an output that was refused alone, and ask what made it."""
        suspect = output.source
        assert isinstance(suspect, Suspect)
        suspect.tries += 1
        # First: a judge may answer at once.
        suspect.may_go_s = _UNDECIDED
        with self._lock:
            self._waiting.append(suspect)
        if suspect.takes_back(error):
            suspect.is_dropped = True
            return
        asked = output._replace(source=suspect.source)
        asked.origin.judge(asked, error, suspect.tries, partial(self._decide, suspect))

    def _decide(self, suspect: Suspect, delay_s: float | None) -> None:
        """Take a judge's answer: another try later, or that it is not needed any more."""
        if delay_s is None:
            suspect.is_dropped = True
        else:
            suspect.may_go_s = self._clock() + delay_s

    def waits(self, suspect: Suspect) -> bool:
        """Tell whether an output must not be sent now, and its record not be committed."""
        return not suspect.is_dropped and suspect.may_go_s > self._clock()

    def lowest(self) -> dict[Epoch, int]:
        """Return the lowest offset of each epoch that must not be committed."""
        if not self._waiting:
            return {}
        with self._lock:
            self._waiting = [one for one in self._waiting if self.waits(one)]
            places = list(places_of(self._waiting))
        lowest: dict[Epoch, int] = {}
        for epoch, offset in places:
            lowest[epoch] = min(offset, lowest.get(epoch, offset))
        return lowest

    def end(self, epochs: Collection[Epoch]) -> None:
        """Forget those of epochs that have ended, after their last commit."""
        with self._lock:
            self._waiting = [
                one for one in self._waiting if not any(epoch in epochs for epoch, _ in places_of([one]))
            ]
