"""Late lanes: the chunks of a handler that many tasks run at once, whose records get lanes as they are taken.

Pure; the caller has the lock, but where it says otherwise. A record has a lane from when a worker takes it to
its outcome, instead of from when it is received: so there are as many lanes as workers, they are made, run
and dropped while they are in the cache, and the poll thread makes none. All else is as with lanes: whoever
has one holds it, and every record with a worker has one. A chunk only ever waits: nothing of it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.express import Express
from ehkafka.lanes.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.order import KeyReader

# Records that one `take` looks at, at most: those of few keys go behind lanes, however many they are.
TAKE_RECORDS_MAX = 1_000


class LateLanes(Express):
    """The chunks of one dispatcher, whose scope must be the partition."""

    def __init__(self, dispatcher: Dispatcher, reader: KeyReader) -> None:
        super().__init__(dispatcher, reader)
        self.on = True

    def go_on(self) -> None:
        """Do nothing: chunks wait for `take`."""

    def settle(self, returned: Iterable[Lane | Chunk]) -> list[Lane]:
        """Return what was handed in: it is lanes alone."""
        return returned  # type: ignore[return-value]

    def take(self, lanes_max: int) -> list[Lane]:
        """Lend up to so many lanes of records that wait, each begun; those of keys with a lane go behind it.

        None may be lent though more waits: then ask again.
        """
        taken: list[Lane] = []
        left = TAKE_RECORDS_MAX
        while self._turns and left > 0 and len(taken) < lanes_max:
            assignment = self._turns.popleft()
            first = assignment.chunks[0]
            if first.needs_lanes or self.needs_lanes(assignment):
                left -= len(first)
                self._spread_first(assignment)
            else:
                records = lanes_max - len(taken)
                left -= records
                self._give_lanes(self._take_first(assignment, records), taken)
            if assignment.chunks:
                self._turns.append(assignment)
        return taken

    def _give_lanes(self, chunk: Chunk, taken: list[Lane]) -> None:
        assignment, messages = chunk.assignment, chunk.messages
        lanes, holds = assignment.lanes, self._dispatcher.holds
        for key, message, size in zip(self.keys_of(chunk), messages, sizes_of(messages), strict=True):
            lane = lanes.get(key)
            if lane is None:
                lanes[key] = lane = Lane(key, assignment, message, size)
                lane.running = True
                taken.append(lane)
                continue
            lane.append(message)
            if lane in holds.held:
                holds.park(assignment, 1, size)
