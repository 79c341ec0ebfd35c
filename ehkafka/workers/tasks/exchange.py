"""The exchange of a handler on an event loop whose records get their lanes as they are taken.

Only the loop takes any, so who wakes it wakes all of its tasks. It never waits for the lock: where another
thread has it, the loop asks again in its next round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.workers.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.lanes.late import LateLanes


class LoopExchange(Exchange):
    """Shared state of one handler's poll side and its event loop."""

    def __init__(self, dispatcher: Dispatcher, clock: Callable[[], float], late: LateLanes) -> None:
        super().__init__(dispatcher, clock)
        self._late = late

    def take(self, lanes_max: int) -> list[Lane]:
        """Settle what was handed in and lend up to so many lanes; none where another thread has the lock."""
        if not self._late.waits or not self._lock.acquire(blocking=False):
            return []
        try:
            self._settle_returned()
            taken = self._late.take(lanes_max)
        finally:
            self._lock.release()
        # What others handed in meanwhile, and tickets that settling has made.
        if self.returned or self.dispatcher.decisions.outbox:
            self.settle()
        return taken

    def has_ready(self) -> bool:
        """Tell whether a worker would find something, the rate limit aside. Needs no lock."""
        return self._late.waits or bool(self.dispatcher.ready)

    def ready_lanes(self) -> int:
        """Return how many lanes there are for workers, at most: records that wait may have keys in common."""
        return self.lanes_at_hand(ENOUGH)

    def lanes_at_hand(self, enough: int) -> int:
        """Return how many lanes stand ready or can be made, counted up to `enough`."""
        ready = len(self.dispatcher.ready)
        return ready if ready >= enough else ready + self._late.waiting_records(enough - ready)

    def ready_records(self, enough: int) -> int:
        """Return how many records stand in ready lanes or wait, counted up to `enough`."""
        records = super().ready_records(enough)
        return records if records >= enough else records + self._late.waiting_records(enough - records)

    @property
    def has_chunks_to_spread(self) -> bool:
        """False: what waits is taken by the record."""
        return False

    @property
    def takes_all(self) -> bool:
        """False: what waits is counted like ready lanes."""
        return False


# More lanes than anybody asks for at once.
ENOUGH = 10_000
