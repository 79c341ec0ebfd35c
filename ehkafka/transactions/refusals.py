"""Outputs that the broker refuses, until their handler's rules have decided on them.

Their records stay out of each transaction meanwhile, and with them what is above in their partitions. The
transactions' thread adds and looks; judges answer on any thread; the poll thread asks for bounds.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Self

from ehkafka.outputs.output import Source, entries_of, places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Output, OutputRefusedError

_UNDECIDED = float("inf")


class RefusedSource(Source):
    """The source of one output that was refused: by it the same output is found again."""

    def __new__(cls, source: Entry | Source) -> Self:
        """Stand for the source that the output had."""
        refused = super().__new__(cls, source)
        refused.source = source
        return refused

    source: Entry | Source
    # How often it was refused, and when it may go again: infinity while that is not decided.
    tries = 0
    may_go_s = float("-inf")
    # It is not needed any more.
    is_dropped = False

    # There may be several of one record.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that the output is of."""
        return entries_of(self.source)

    def acknowledged(self) -> None:
        """Tell the source."""
        if isinstance(self.source, Source):
            self.source.acknowledged()

    def takes_back(self, error: OutputRefusedError) -> bool:
        """Ask the source."""
        return isinstance(self.source, Source) and self.source.takes_back(error)

    def gone(self) -> None:
        """Tell the source."""
        if isinstance(self.source, Source):
            self.source.gone()


class Refusals:
    """Knows them by their sources."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Those that wait, or waited when `lowest` looked last. Under the lock.
        self._waiting: list[RefusedSource] = []

    def add(self, output: Output, error: OutputRefusedError) -> None:
        """Take an output that was refused, and ask what made it."""
        source = output.source
        assert isinstance(source, RefusedSource)
        source.tries += 1
        # First: a judge may answer at once.
        source.may_go_s = _UNDECIDED
        with self._lock:
            self._waiting.append(source)
        if source.takes_back(error):
            source.is_dropped = True
            return
        asked = output._replace(source=source.source)
        asked.origin.judge(asked, error, source.tries, partial(self._decide, source))

    def _decide(self, source: RefusedSource, delay_s: float | None) -> None:
        """Take a judge's answer: another try later, or that it is not needed any more."""
        if delay_s is None:
            source.is_dropped = True
        else:
            source.may_go_s = self._clock() + delay_s

    def waits(self, source: RefusedSource) -> bool:
        """Tell whether an output must not be sent now, and its record not be committed."""
        return not source.is_dropped and source.may_go_s > self._clock()

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
