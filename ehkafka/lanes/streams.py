"""Streams: chunks for handlers that wait or compute for a while, one for each worker at the same time.

Pure; the caller has the lock, but where it says otherwise. A stream is a chunk whose keys are known, each its
own while it is out: `Assignment.owners` says which stream has a key. A record of such a key that comes up
meanwhile goes to the end of that stream; if its worker has just found the end, it gets a lane, which stands
*behind* that stream and becomes ready when the stream has ended. So a worker runs a few records one after
another and reports them once, and a lane is made only where a key needs one.

A key's unfinished records stand in one stream, and then in one lane behind it, or in a lane alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ehkafka.headers.size import size_of, sizes_of
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.express import Express
from ehkafka.lanes.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.order import KeyReader
    from ehkafka.records import Message

# Streams that stand ready beside what runs, for each worker: who ends one finds the next without a wait, and
# no more keys than that are taken. Many are made at once when few are left: that takes less than half of what
# one by one does, each in a thread that has just woken and finds nothing in the core's caches.
READY_SHARE_MIN, READY_SHARE = 0.1, 0.35
# What a stream's records take together, about: its worker is back after that.
STREAM_S = 30e-3
RECORDS_MIN, RECORDS_MAX = 4, 64
# Streams spare what a lane costs each record. That tells where all workers together end a record in less than
# the first; of slower ones a stream of a few would keep its last for too long.
QUICK_S = 120e-6
SLOW_S = 12e-3
# Once they are there, both may be so much slower.
SLACK = 1.5
# With so many streams for each worker there are keys enough for streams of more.
ENOUGH_STREAMS = 1.25
# Fewer records than this for each worker give each its own: a stream would keep them from workers that wait.
ENOUGH_RECORDS = 2


class Streams(Express):
    """Express for threads: one chunk at a time for quick handlers, streams for slower ones, lanes else."""

    def __init__(self, dispatcher: Dispatcher, reader: KeyReader) -> None:
        super().__init__(dispatcher, reader)
        # How many workers there are. Written by any thread without the lock, as `records_max` is; each
        # decision reads them once.
        self.workers = 1
        # How many records a stream begins with, of keys that no other has: where keys are few, one with many
        # of them would leave the other workers none.
        self._first_max = 1
        # Those in line or with a worker, of all assignments. Copied in one step, so read without the lock.
        self.live: dict[Chunk, None] = {}

    def note_mean(self, mean_s: float) -> None:
        """Hear how long a record takes a worker. Any thread, without the lock."""
        slack = SLACK if self.records_max else 1.0
        if 0 < mean_s < SLOW_S * slack and mean_s < QUICK_S * slack * self.workers:
            self.records_max = max(RECORDS_MIN, min(RECORDS_MAX, int(STREAM_S / mean_s)))
        else:
            self.records_max = 0

    def takes(self, assignment: Assignment) -> bool:
        """Tell whether records received now become a chunk. Without the lock it is only a hint."""
        return super().takes(assignment) or (self.records_max > 0 and not self.needs_lanes(assignment))

    def go_on(self) -> None:
        """Put the next chunk or streams in line, or spread what waits."""
        # Read once: workers may change them between two looks.
        on, records_max = self.on, self._affordable()
        turns = self._turns
        if records_max and not on and not self.are_few_ready:
            return
        has_met = has_made = False
        while turns and self._has_room(on=on, records_max=records_max):
            assignment = turns.popleft()
            if self.needs_lanes(assignment) or assignment.chunks[0].needs_lanes:
                self._spread_first(assignment)
            elif on:
                # Nobody reads the keys of a chunk: it goes out when those of all streams are free. The last
                # stream's end puts the assignment in line.
                if assignment.streams:
                    continue
                self._line_up(assignment)
            elif records_max:
                has_made = True
                has_met |= self._put_in_line(assignment, records_max)
            else:
                self._spread_first(assignment)
            if assignment.chunks and not assignment.chunks[0].is_out:
                turns.append(assignment)
        if has_made:
            self._adapt(records_max, has_met=has_met)

    @property
    def are_few_ready(self) -> bool:
        """Whether workers may soon find nothing ready. Needs no lock."""
        return len(self._dispatcher.ready) <= READY_SHARE_MIN * self.workers

    @property
    def is_dry(self) -> bool:
        """Whether all that was received is with workers. Without the lock a guess."""
        return not self._turns and not self._dispatcher.ready

    @property
    def is_short(self) -> bool:
        """Whether who finds nothing ready may make a stream. Without the lock a guess."""
        return self.records_max > 0 and not self.on and self.are_few_ready and bool(self._turns)

    def _affordable(self) -> int:
        """Return how many records a stream may have now: each worker is to find one."""
        records_max = self.records_max
        if not records_max:
            return 0
        share = self._dispatcher.backlog_records // (ENOUGH_RECORDS * self.workers)
        return 0 if share < 1 else min(records_max, share)

    def _has_room(self, *, on: bool, records_max: int) -> bool:
        if on:
            return self.out is None
        ready = len(self._dispatcher.ready)
        return ready <= READY_SHARE * self.workers if records_max else ready < self.ready_lanes_min

    def _put_in_line(self, assignment: Assignment, records_max: int) -> bool:
        """Make streams of an assignment's first records; tell whether some of their keys were elsewhere.

        Those run or wait there, and so do the records.
        """
        first_max = min(records_max, self._first_max)
        # Of few keys: then others wait for nothing that comes later, or workers have enough in any case.
        grown_max = RECORDS_MAX if first_max == 1 or len(self.live) >= self.workers else records_max
        chunk = self._take_first(assignment, first_max * self._share())
        lanes, owners, holds = assignment.lanes, assignment.owners, self._dispatcher.holds
        stream = self._new_stream(assignment)
        has_met = False
        for key, message, size in zip(
            self.keys_of(chunk), chunk.messages, sizes_of(chunk.messages), strict=True
        ):
            if (lane := lanes.get(key)) is not None:
                lane.append(message)
                if lane in holds.held:
                    holds.park(assignment, 1, size)
            elif (owner := owners.setdefault(key, stream)) is stream or owner.has_finished(key):
                owners[key] = stream
                stream.take(key, message, size)
                if len(stream) >= first_max:
                    self._line_up_stream(stream)
                    stream = self._new_stream(assignment)
                continue
            elif len(owner) >= grown_max or not owner.add(key, message, size):
                lanes[key] = lane = Lane(key, assignment, message, size)
                cast("list[Lane]", owner.behind).append(lane)
            has_met = True
        if stream.messages:
            self._line_up_stream(stream)
        return has_met

    def _adapt(self, records_max: int, *, has_met: bool) -> None:
        """Let the next streams begin with more records, or with fewer, after some were made."""
        if len(self.live) >= ENOUGH_STREAMS * self.workers:
            self._first_max = min(2 * self._first_max, records_max)
        elif has_met and len(self.live) < self.workers:
            self._first_max = max(1, self._first_max // 2)

    def _share(self) -> int:
        """Return how many streams an assignment may have in its turn: all that wait have the same."""
        missing = int(READY_SHARE * self.workers) - len(self._dispatcher.ready)
        return max(1, missing // (1 + len(self._turns)))

    @staticmethod
    def _new_stream(assignment: Assignment) -> Chunk:
        stream = Chunk(assignment, [], 0, [])
        stream.behind = []
        return stream

    def _line_up_stream(self, stream: Chunk) -> None:
        stream.line_up()
        stream.is_out = True
        stream.assignment.streams[stream] = self.live[stream] = None
        self._dispatcher.ready.append(cast("Lane", stream))

    def settle(self, returned: Iterable[Lane | Chunk]) -> list[Lane]:
        """Take chunks back from their workers, which have run them to the end; return what are lanes."""
        others = []
        for one in returned:
            if isinstance(one, Chunk) and one in one.assignment.streams:
                self._count_finished(one.assignment, len(one.messages), one.size)
                self._end_stream(one)
                self._ready_behind(one)
            else:
                others.append(one)
        return super().settle(others)

    def end_early(self, chunk: Chunk) -> Lane | None:
        """End a chunk after the record that runs, see `Express`; what a stream has left gets lanes."""
        if chunk not in chunk.assignment.streams:
            return super().end_early(chunk)
        # First of all, see `Express.end_early`.
        rest = chunk.take_rest()
        self._end_stream(chunk)
        keys = cast("list[Hashable]", chunk.keys)
        started = len(chunk.messages)
        # Back to front: each goes before those of its key that wait already.
        for key, message in zip(reversed(keys[started:]), reversed(rest), strict=True):
            self._put_first(chunk, key, message)
        if started:
            chunk.lanes = [lane] = self._busy_lanes(chunk)
            self._count_finished(chunk.assignment, started - 1, chunk.size - lane.head_bytes)
        self._ready_behind(chunk)
        return chunk.lane

    def _put_first(self, stream: Chunk, key: Hashable, message: Message) -> None:
        lanes = stream.assignment.lanes
        size = size_of(message)
        if (lane := lanes.get(key)) is None:
            lanes[key] = lane = Lane(key, stream.assignment, message, size)
            cast("list[Lane]", stream.behind).append(lane)
        else:
            lane.put_first(message, size)

    def _end_stream(self, stream: Chunk) -> None:
        """Let its keys go."""
        assignment = stream.assignment
        del assignment.streams[stream], self.live[stream]
        stream.is_out = False
        owners = assignment.owners
        for key in cast("list[Hashable]", stream.keys):
            # Some come twice, and another stream may have taken one over.
            if owners.get(key) is stream:
                del owners[key]
        # See `go_on`: it was left out while streams had its keys.
        if assignment.chunks and not assignment.streams and assignment not in self._turns:
            self._turns.append(assignment)

    def _ready_behind(self, stream: Chunk) -> None:
        """Ready the lanes that waited for a stream's end, but the one that its worker has now."""
        ready = self._dispatcher.ready
        for lane in cast("list[Lane]", stream.behind):
            if lane is stream.lane:
                continue
            if stream.assignment.halted:
                # How far its drain goes is not known yet: who takes the lane looks before it starts anything.
                ready.append(lane)
            else:
                self._dispatcher.make_ready(lane)

    def halt(self, assignment: Assignment) -> None:
        """Let no more than the records that run now start of an assignment's chunks."""
        super().halt(assignment)
        for stream in list(assignment.streams):
            self.end_early(stream)
