"""Slices: the chunks of a batch handler, of which a batch takes as many records as it has room for.

Pure; the caller has the lock, but where it says otherwise. All records of a batch run at once, so its chunks
end as a whole: no key is looked at, and no record counted. At most one chunk of an assignment is out, and
what else of it runs has lanes, behind which a chunk's records of those keys go as it is taken: so no two
batches share a key. Where records of a batch end in different ways, or somebody else needs to know what runs,
`end_early` gives each of its keys a lane.

Nothing is put in line: whoever collects a batch asks for the assignment whose turn it is. Handlers that are
not quick have lanes alone: then a hot key's records do not fill all batches, and other keys of its partition
do not wait behind a batch that runs.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.express import Express
from ehkafka.lanes.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.order import KeyReader
    from ehkafka.records import Message


class Slices(Express):
    """The chunks of one batch handler's dispatcher, whose scope must be the partition."""

    def __init__(self, dispatcher: Dispatcher, reader: KeyReader, records_max: int) -> None:
        """`records_max` is what a batch may have: chunks that wait grow as long."""
        super().__init__(dispatcher, reader)
        self.chunk_records_max = max(self.chunk_records_max, records_max)
        self.ready_lanes_min = max(self.ready_lanes_min, records_max)
        # Whether some records that `take` looked at last are in lanes now.
        self.went_behind_lanes = False
        # Assignments with chunks behind the one that is out, whose keys they may have: see `end_early`.
        # Written under the lock, looked at without.
        self.blocked: dict[Assignment, None] = {}

    def go_on(self) -> None:
        """Spread what waits if batches are to have lanes; else it waits for `take`."""
        if not self.on:
            super().go_on()

    def turns(self) -> int:
        """Return how many assignments have chunks that wait for nothing but to be taken."""
        return len(self._turns)

    def next(self) -> Chunk | None:
        """Return the chunk whose turn it is, as it waits."""
        return self._turns[0].chunks[0] if self._turns else None

    def waiting(self) -> Iterator[Chunk]:
        """Yield the chunks that wait for nothing but to be taken, one assignment after another, in turn."""
        for assignment in self._turns:
            yield from assignment.chunks

    def receive(
        self,
        assignment: Assignment,
        messages: Sequence[Message],
        size: int,
        keys: Sequence[Hashable] | None = None,
    ) -> None:
        """Queue records of an assignment behind all it has; see `Express.receive`."""
        super().receive(assignment, messages, size, keys)
        self._note_blocked(assignment)

    def take(self, records_max: int, bytes_max: float, records_min: int = 0) -> Chunk | None:
        """Lend what a batch has room for of the chunk whose turn it is. There is one.

        `bytes_max` is the room for values; so many records it has in any case. None: no record fits, or all
        of the chunk went to lanes.
        """
        assignment = self._turns.popleft()
        chunks = assignment.chunks
        self.went_behind_lanes = False
        if not self.on or any(chunk.needs_lanes for chunk in chunks) or self.needs_lanes(assignment):
            # All of them: what is behind a chunk must not be lanes while that is out.
            self.went_behind_lanes = True
            while chunks:
                self._spread_first(assignment)
            return None
        chunk = self._first(assignment, records_max)
        while len(chunk) < records_max and chunks:
            chunk.join(self._first(assignment, records_max - len(chunk)))
        if bytes_max != float("inf"):
            chunk = self._within(chunk, bytes_max, records_min)
        if not chunk.messages:
            if chunks:
                self._turns.append(assignment)
            return None
        chunks.appendleft(chunk)
        chunk.is_out = True
        chunk.running = len(chunk.messages)
        self._note_blocked(assignment)
        return chunk

    def _note_blocked(self, assignment: Assignment) -> None:
        if len(assignment.chunks) > 1 and assignment.chunks[0].is_out:
            self.blocked[assignment] = None

    def _let_go(self, chunk: Chunk) -> None:
        super()._let_go(chunk)
        self.blocked.pop(chunk.assignment, None)

    def give_back(self, chunk: Chunk) -> None:
        """Let a chunk that was taken, and whose batch has not begun, wait on in its old place."""
        self._let_go(chunk)
        chunk.running = 0
        self._turns.appendleft(chunk.assignment)

    def _first(self, assignment: Assignment, records_max: int) -> Chunk:
        """Take so many of an assignment's records out, less what goes behind lanes."""
        chunk = self._take_first(assignment, records_max)
        if assignment.lanes:
            before = len(chunk)
            self._put_behind_lanes(chunk)
            self.went_behind_lanes |= len(chunk) < before
        return chunk

    @staticmethod
    def _within(chunk: Chunk, bytes_max: float, records_min: int) -> Chunk:
        """Return what of a chunk a batch has so many bytes of room for; the rest waits on."""
        ends = list(accumulate(map(len, chunk.messages)))
        fit = max(records_min, bisect_right(ends, bytes_max))
        if fit >= len(ends):
            return chunk
        first = chunk.take_first(fit)
        chunk.assignment.chunks.appendleft(chunk)
        return first

    def _busy_lanes(self, chunk: Chunk) -> list[Lane]:
        assignment, lanes = chunk.assignment, chunk.assignment.lanes
        made: dict[Hashable, Lane] = {}
        messages = chunk.messages
        for key, message, size in zip(self.keys_of(chunk), messages, sizes_of(messages), strict=True):
            lane = made.get(key)
            if lane is None:
                # See `Express._busy_lanes`.
                assert key not in lanes, "a batch ran a record whose key has a lane"
                made[key] = lane = Lane(key, assignment, message, size)
            else:
                lane.append(message)
            lane.running += 1
        lanes.update(made)
        return list(made.values())
