"""Express: handlers of a few microseconds get their records in chunks instead of lanes.

Pure; the caller has the lock, but where it says otherwise. Under the interpreter's lock such handlers
cannot run side by side anyway, so at most one chunk is *out* (in line or with a worker) for a handler, and
nobody needs to know its keys. Per assignment the chunks stand in offset order, behind whatever its lanes
hold: while there is one, new records go behind it. At its turn a chunk either goes out, less what belongs
behind a live lane, or its records are spread over lanes; see `needs_lanes` for when.

The keys of the named order functions are read late, and seldom: where a record gets a lane after all. A
user's function is asked by the poll thread as the records come, as for lanes, and the chunk remembers what
it said: it is user code, which must not run under the lock, on any thread but that one, or twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from ehkafka.headers.size import size_of, sizes_of
from ehkafka.lanes.chunk import CHUNK_RECORDS_MAX, Chunk
from ehkafka.lanes.lane import Lane
from ehkafka.lanes.order import KeyFailure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.order import KeyReader
    from ehkafka.records import Message

# Without express, chunks that still wait are spread while fewer lanes than this are ready: enough for many
# workers, and few to be sorry about when the handler becomes quick again.
READY_LANES_MIN = 1_000


class Express:
    """The chunks of one dispatcher, whose scope must be the partition."""

    def __init__(self, dispatcher: Dispatcher, reader: KeyReader) -> None:
        self._dispatcher = dispatcher
        self._reader = reader
        # Whether `receive` must be given the keys. Never changes: the poll thread reads it without the lock.
        self.keeps_keys = reader.calls_user_code
        # Whether chunks run, or are spread over lanes. Any thread may change it at any moment; every decision
        # reads it once.
        self.on = False
        # How many records a stream has at most; 0: none are made. Likewise.
        self.records_max = 0
        # In line or with a worker. It is the first of its assignment's. Written under the lock alone; the
        # poll thread's watch looks at it without, and ends it only once it has looked again under the lock.
        self.out: Chunk | None = None
        # Assignments whose first chunk waits, each once: in turn, so that none starves behind a busy one.
        # Never one whose chunk is out, for its next chunk may have the same keys.
        self._turns: deque[Assignment] = deque()
        self.chunk_records_max = CHUNK_RECORDS_MAX
        self.ready_lanes_min = READY_LANES_MIN

    @property
    def waits(self) -> bool:
        """Whether chunks wait to be spread, or for their turn. Without the lock it is only a hint."""
        return bool(self._turns)

    def waiting_records(self, enough: int) -> int:
        """Return how many records wait, counted up to `enough`. Needs no lock: then it is a guess."""
        records = 0
        # Copies, made in one step: workers take records meanwhile.
        for assignment in self._turns.copy():
            records += sum(map(len, assignment.chunks.copy()))
            if records >= enough:
                break
        return records

    def needs_lanes(self, assignment: Assignment) -> bool:
        """Tell whether each of an assignment's records must have a lane now."""
        return bool(
            not assignment.opened  # `open` hands out lanes
            or assignment.halted  # nothing may start above the limit, which holders of lanes look at
            or assignment.after_letter  # some keys' records are held or diverted
            or self._dispatcher.holds.paused_keys
        )

    def takes(self, assignment: Assignment) -> bool:
        """Tell whether records received now become a chunk. Without the lock it is only a hint."""
        if assignment.chunks or self._turns:  # else lanes would overtake those whose turn comes
            return True
        return self.on and not self.needs_lanes(assignment)

    def receive(
        self,
        assignment: Assignment,
        messages: Sequence[Message],
        size: int,
        keys: Sequence[Hashable] | None = None,
    ) -> None:
        """Queue records of an assignment, ascending and of so many bytes, behind all it has.

        `keys` are theirs; not needed unless `keeps_keys`.
        """
        # While an assignment has a chunk, whatever comes goes behind it: a lane of its own would run at once
        # and pass records of its key that wait in the chunk.
        chunks = assignment.chunks
        if not chunks:
            self._turns.append(assignment)
        kept = None
        if self.keeps_keys:
            assert keys is not None
            kept = list(keys)
        needs_lanes = kept is not None and KeyFailure in map(type, kept)
        last = chunks[-1] if chunks else None
        if (
            last is None
            or last.is_out  # its worker's iterator runs over that very list
            or len(last.messages) >= self.chunk_records_max
            or needs_lanes is not last.needs_lanes
        ):
            chunks.append(Chunk(assignment, list(messages), size, kept, needs_lanes=needs_lanes))
            return
        last.messages.extend(messages)
        last.size += size
        if kept is not None:
            assert last.keys is not None
            last.keys += kept

    def go_on(self) -> None:
        """Spread what waits, as long as few lanes are ready."""
        turns = self._turns
        while turns and len(self._dispatcher.ready) < self.ready_lanes_min:
            assignment = turns.popleft()
            self._spread_first(assignment)
            # Last in turn again, so that the other assignments' chunks go first. One whose chunk is out comes
            # back when that has ended.
            if assignment.chunks and not assignment.chunks[0].is_out:
                turns.append(assignment)

    def _line_up(self, assignment: Assignment) -> None:
        chunk = assignment.chunks[0]
        # Not before its turn: until then earlier chunks may become lanes, and lanes may empty.
        if assignment.lanes:
            self._put_behind_lanes(chunk)
        if chunk.messages:
            chunk.line_up()
            chunk.is_out = True
            self.out = chunk
            self._dispatcher.ready.append(cast("Lane", chunk))
        else:
            assignment.chunks.popleft()

    def _put_behind_lanes(self, chunk: Chunk) -> None:
        """Take out of a chunk the records whose keys have a lane, and queue them there."""
        assignment = chunk.assignment
        lanes, holds = assignment.lanes, self._dispatcher.holds
        free: list[Message] = []
        free_keys: list[Hashable] = []
        keys = self.keys_of(chunk)
        for key, message in zip(keys, chunk.messages, strict=True):
            lane = lanes.get(key)
            if lane is None:
                free.append(message)
                free_keys.append(key)
                continue
            lane.append(message)
            # Still as it was received: no handler has seen a message of a chunk that waits.
            size = size_of(message)
            chunk.size -= size
            if lane in holds.held:
                holds.park(assignment, 1, size)
        chunk.messages = free
        if chunk.keys is not None:
            chunk.keys = free_keys

    @staticmethod
    def _take_first(assignment: Assignment, records_max: int) -> Chunk:
        """Take an assignment's first records away from those that wait, at most so many."""
        chunk = assignment.chunks[0]
        if len(chunk) <= records_max:
            return assignment.chunks.popleft()
        return chunk.take_first(records_max)

    def _spread_first(self, assignment: Assignment) -> None:
        chunk = assignment.chunks.popleft()
        self._dispatcher.spread(assignment, chunk.messages, self.keys_of(chunk))

    def settle(self, returned: Iterable[Lane | Chunk]) -> list[Lane]:
        """Take chunks back from their workers, which have run them to the end; return what are lanes."""
        lanes = []
        for one in returned:
            if not isinstance(one, Chunk):
                lanes.append(one)
            elif one.lanes:  # ended early, and what ran then has ended since
                for lane in one.lanes:
                    for _ in range(lane.running):
                        lane.advance()
                lanes += one.lanes
            elif one.is_out:
                self._let_go(one)
                self._count_finished(one.assignment, len(one.messages), one.size)
                self._drop_first(one.assignment)
            # Else it was ended early before anything of it had started, and nothing of it is left.
        return lanes

    def end_early(self, chunk: Chunk) -> Lane | None:
        """End a chunk after the record that runs; return that record's lane, which its worker now holds.

        None: nothing of it had started. What had not started is the assignment's next chunk. Called for a
        record that takes long, and by the worker itself for one that failed: whoever comes second finds
        what the first one did.
        """
        if not chunk.is_out:
            return chunk.lane
        # First of all: until the iterator is empty its worker may start one record more. From here on the
        # list says what has started, the iterator's index nothing.
        size = chunk.size
        rest = chunk.take_rest()
        self._let_go(chunk)
        assignment = chunk.assignment
        if chunk.messages:
            chunk.lanes = self._busy_lanes(chunk)
            finished = chunk.finished()
            if finished:
                running = sum(lane.head_bytes for lane in chunk.lanes)
                self._count_finished(assignment, finished, chunk.size - running)
        # In the ended chunk's place, before its later ones: offsets stay in order.
        if rest:
            rest_keys = None if chunk.keys is None else chunk.keys[len(chunk.messages) :]
            assignment.chunks[0] = Chunk(assignment, rest, size - chunk.size, rest_keys)
            self._turns.append(assignment)
        else:
            self._drop_first(assignment)
        return chunk.lane

    def _let_go(self, chunk: Chunk) -> None:
        chunk.is_out = False
        if chunk is self.out:
            self.out = None

    def _busy_lanes(self, chunk: Chunk) -> list[Lane]:
        """Give what runs its lanes, which the chunk's worker holds."""
        assignment, index = chunk.assignment, len(chunk.messages) - 1
        message = chunk.messages[index]
        # Its handler may be changing it at this moment.
        received = None if chunk.received is None else chunk.received.of(index, message)
        key = self._key_of(chunk, index)
        size = size_of(cast("Message", message if received is None else received))
        lane = assignment.lanes.get(key)
        if lane is None:
            assignment.lanes[key] = lane = Lane(key, assignment, message, size)
        else:
            # Two records of the key would run at once. When the chunk was lined up, lanes took the records of
            # their keys out of it; since then only lanes came that wait for a stream's end.
            assert chunk.behind is not None, "a chunk ran a record whose key has a lane"
            assert not lane.running
            lane.put_first(message, size)
        if received is not None:
            lane.received = received
        # The chunk's worker holds it without having begun it; whoever drains must see that it does.
        lane.running = True
        return [lane]

    def keys_of(self, chunk: Chunk) -> Sequence[Hashable]:
        """Return the keys of a chunk's records, one for each. Needs no lock once it is out."""
        return self._reader.keys(chunk.messages) if chunk.keys is None else chunk.keys

    def in_flight(self, assignment: Assignment) -> Iterator[tuple[Message, Hashable]]:
        """Yield what runs of an assignment's chunks: of each key the first record, and the key."""
        seen = set()
        for chunk in assignment.all_chunks():
            for index in range(chunk.finished(), chunk.started()):
                if (key := self._key_of(chunk, index)) not in seen:
                    seen.add(key)
                    yield chunk.messages[index], key

    def key_of_first(self, chunk: Chunk) -> Hashable:
        """Return the key of a chunk's first record that may be without an outcome."""
        return self._key_of(chunk, chunk.finished())

    def _key_of(self, chunk: Chunk, index: int) -> Hashable:
        if chunk.keys is not None:
            return chunk.keys[index]
        message = chunk.messages[index]
        # Its handler may have set another key meanwhile.
        if chunk.received is not None:
            message = cast("Message", chunk.received.of(index, message))
        return self._reader.keys([message])[0]

    def _drop_first(self, assignment: Assignment) -> None:
        assignment.chunks.popleft()
        if assignment.chunks:
            self._turns.append(assignment)

    def _count_finished(self, assignment: Assignment, records: int, size: int) -> None:
        # Chunks note no offset of theirs as ended, so the next commit looks through the backlog for them.
        assignment.is_extent_due = True
        self._dispatcher.chunk_records += records
        for counted in (assignment, self._dispatcher):
            counted.finished_records += records
            counted.backlog_records -= records
            counted.backlog_bytes -= size

    def halt(self, assignment: Assignment) -> None:
        """Let no more than the record that runs now start of an assignment's chunks."""
        if assignment.chunks and assignment.chunks[0].is_out:
            self.end_early(assignment.chunks[0])

    def dissolve(self, assignment: Assignment) -> None:
        """Spread all that an assignment has in chunks over lanes."""
        self.halt(assignment)
        # All, and from the first one on: a lane must not pass a record of its key in an earlier chunk.
        while assignment.chunks:
            self._spread_first(assignment)
        self._leave_line(assignment)

    def cut(self, assignment: Assignment, above: int) -> None:
        """Spread what lies at or below an offset and return the rest. The assignment is halted."""
        # Ended before anything is counted: what its worker starts meanwhile would be returned and run.
        self.halt(assignment)
        waiting = [message for chunk in assignment.chunks for message in chunk.messages]
        keys = [key for chunk in assignment.chunks for key in chunk.keys or ()]
        assignment.chunks.clear()
        self._leave_line(assignment)
        # Offsets ascend over all chunks, so what is kept comes before what is returned.
        kept = [message for message in waiting if message.offset() <= above]
        returned = waiting[len(kept) :]
        if kept:
            kept_keys = keys[: len(kept)] if self.keeps_keys else self._reader.keys(kept)
            self._dispatcher.spread(assignment, kept, kept_keys)
        if returned:
            assignment.note_returned(returned)
            size = sum(sizes_of(returned))
            for counted in (assignment, self._dispatcher):
                counted.backlog_records -= len(returned)
                counted.backlog_bytes -= size

    def _leave_line(self, assignment: Assignment) -> None:
        # Its turn would find no chunk.
        if assignment in self._turns:
            self._turns.remove(assignment)
