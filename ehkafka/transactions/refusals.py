"""Keeps the outputs that the broker refuses until their handler's rules have decided.

Meanwhile no transaction commits their records, nor those above them in their partitions. The transactions'
thread adds and checks outputs; judges answer on any thread; the poll thread reads the lowest offsets.
"""

from __future__ import annotations

import math
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Self

from ehkafka.outputs.output import EntrySource, entries_of, has_ended, places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Output, OutputRefusedError

# Later than any time, but not infinity: that is a decision, by which an output waits for the next start.
_UNDECIDED = sys.float_info.max


class RefusedSource(EntrySource):
    """The source of one refused output: the output is found by it again."""

    def __new__(cls, source: Entry | EntrySource) -> Self:
        """Have the places of the output's own source."""
        refused = super().__new__(cls, source)
        refused.source = source
        return refused

    source: Entry | EntrySource
    # How often it was refused, and when it may be sent again.
    tries = 0
    may_go_s = float("-inf")
    # The output is not needed any more.
    is_dropped = False

    # There may be several of one record.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that the output belongs to."""
        return entries_of(self.source)

    def has_ended(self) -> bool:
        """Tell whether the epochs of all its records have ended."""
        return has_ended(self.source)

    def acknowledged(self, written: object = None) -> None:
        """Tell the source."""
        if isinstance(self.source, EntrySource):
            self.source.acknowledged(written)

    def gone(self) -> None:
        """Tell the source."""
        if isinstance(self.source, EntrySource):
            self.source.gone()


class Refusals:
    """The refused outputs that wait for a decision, or for their next try."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Sources that wait, or waited at the last call of `lowest`. Under the lock.
        self._waiting: list[RefusedSource] = []

    def add(self, output: Output, error: OutputRefusedError) -> None:
        """Take a refused output, and let its source or its judge decide."""
        source = output.source
        assert isinstance(source, RefusedSource)
        source.tries += 1
        # First: a judge may answer at once.
        source.may_go_s = _UNDECIDED
        with self._lock:
            self._waiting.append(source)
        asked = output._replace(source=source.source)
        asked.origin.judge(asked, error, source.tries, partial(self._decide, source))

    def _decide(self, source: RefusedSource, delay_s: float | None) -> None:
        """Take a judge's answer: seconds until the next try, or None: the output is not needed any more."""
        if delay_s is None:
            source.is_dropped = True
        else:
            source.may_go_s = self._clock() + delay_s

    def may_go(self, source: RefusedSource) -> bool:
        """Tell whether an output may be sent now; a dropped one never: a dead letter may replace it."""
        return not source.is_dropped and source.may_go_s <= self._clock()

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

    def waiting_epochs(self) -> set[Epoch]:
        """Return the epochs whose outputs wait for a decision, or for a try before the next start."""
        with self._lock:
            waiting = [one for one in self._waiting if self.waits(one) and one.may_go_s < math.inf]
        return {epoch for epoch, _ in places_of(waiting)}

    def end(self, epochs: Collection[Epoch]) -> None:
        """Forget outputs of epochs that have ended, after their last commit."""
        with self._lock:
            self._waiting = [
                one for one in self._waiting if not any(epoch in epochs for epoch, _ in places_of([one]))
            ]
