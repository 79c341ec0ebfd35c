"""The FIFO queue of one key.

Pure: no thread, clock or lock in here; the fields say who may touch them. One lane is made and dropped
for most records (keys are many, lanes are short), so it is as light as Python allows: the head has a
slot of its own and the queue behind it exists only once a second record came (a deque for each lane took 600
bytes and twice the time). What waits are confluent's messages; a `Record` is made when the handler is called.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.headers.size import size_of, sizes_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.received import Received
    from ehkafka.records import Message


class Lane:
    """Records of one key in one assignment, oldest first.

    Whoever *holds* the lane may move its head: the worker from `Dispatcher.begin` until it hands the
    lane in, else whoever has the bookkeeping lock. Records are appended, and cut from the back, only
    under the lock. `head` stays on the record until it has an outcome, so reading it at any moment gives
    an offset that is not committed past; it may be behind by what finished since, never ahead.
    """

    __slots__ = (
        "assignment",
        "attempts",
        "decision",
        "finished_bytes",
        "finished_records",
        "head",
        "head_bytes",
        "key",
        "last_error",
        "received",
        "rest",
        "retries_asked",
        "running",
    )
    # The reason of the last decision. Set once an attempt has failed, no meaning while `attempts` is 0:
    # setting it for every lane would cost each of them. Written and read under the lock.
    last_error: str
    # The head as it came, where its handler is given messages: set before each call, by the holder.
    received: Received

    def __init__(self, key: Hashable, assignment: Assignment, head: Message, head_bytes: int = 0) -> None:
        self.key = key
        self.assignment = assignment
        self.head: Message | None = head
        # Its size as it was received: a handler of messages may change them. Moves with the head.
        self.head_bytes = head_bytes
        self.rest: deque[Any] | None = None
        # How many records, from the head on, the holder has started or may start without another look. Set
        # before it looks at `assignment.halted`; cleared in settle. The order matters: see `Assignment`.
        self.running: int = 0
        # What the holder did since `begin`; read and cleared in settle.
        self.finished_records = 0
        self.finished_bytes = 0
        # Set by the holder when the head failed; read and cleared in settle.
        self.decision: Decision | None = None
        # Calls of the handler that the head has had and that failed; how many of them only asked for time.
        # The second counts only while the first does.
        self.attempts = 0
        self.retries_asked = 0

    def append(self, message: Message) -> None:
        """Queue a record behind the others. Caller has the lock."""
        if self.rest is None:
            self.rest = deque((message,))
        else:
            self.rest.append(message)

    def put_first(self, message: Message, size: int) -> None:
        """Put a record of so many bytes before all others. Caller has the lock, and nobody has the lane."""
        if self.head is not None:
            if self.rest is None:
                self.rest = deque()
            self.rest.appendleft(self.head)
        self.head, self.head_bytes = message, size

    def may_run_head(self) -> bool:
        """Tell whether the holder may call the handler for the head. Holder only, before every record."""
        # A head of None: the lane was cut while it stood in `ready`.
        return self.head is not None and (not self.assignment.halted or self.assignment.may_start(self.head))

    def lend(self, records_max: int) -> list[Message]:
        """Return the head and followers that may be started together, in order; empty if none may.

        Holder only, once per `begin`. They count as started from here on: a cut leaves them and a drain
        waits for them, until each has advanced or the lane is handed in.
        """
        if not self.may_run_head():
            return []
        lent = [self.head]
        if self.rest and records_max > 1:
            followers = min(len(self.rest), records_max - 1)
            self.running = 1 + followers
            if self.assignment.halted:  # a cut may not have seen them: the head alone was running before
                self.running = 1
            else:
                lent += [self.rest[number] for number in range(followers)]
        return lent  # type: ignore[return-value]

    def advance(self) -> bool:
        """Give the head its outcome and move to the next record; False when there is none. Holder only."""
        self.finished_records += 1
        self.finished_bytes += self.head_bytes
        self.assignment.ended_lately.append(self.head.offset())  # type: ignore[union-attr]
        if self.attempts:
            self.attempts = self.retries_asked = 0
        rest = self.rest
        if rest:
            try:
                # First in both places, then in one: whoever looks in between sees it, never neither.
                self.head = rest[0]
                rest.popleft()
            except IndexError:  # a cut took it, before or after it became the head
                self.head = None
                return False
            self.head_bytes = size_of(self.head)
            return True
        self.head = None
        return False

    def refill(self) -> bool:
        """Make sure that a record waiting behind an empty head becomes the head. Caller has the lock."""
        if self.head is None:
            if not self.rest:
                return False
            self.head = self.rest.popleft()
            self.head_bytes = size_of(self.head)
        return True

    def messages(self) -> Sequence[Message]:
        """All unfinished records, oldest first. Caller has the lock; the holder may still advance.

        The followers are read before the head: a record on its way from one to the other is seen twice
        rather than not at all.
        """
        waiting = tuple(self.rest) if self.rest else ()
        head = self.head
        return waiting if head is None else (head, *waiting)

    def tally(self) -> Iterator[tuple[Assignment, int, int]]:
        """Yield (assignment, records, bytes) of what is unfinished. Caller has the lock; nobody holds it."""
        followers = tuple(self.rest or ())
        head_records, head_bytes = (0, 0) if self.head is None else (1, self.head_bytes)
        yield self.assignment, head_records + len(followers), head_bytes + sum(sizes_of(followers))

    def cut(self, above: int, of: Assignment) -> list[Message]:
        """Take that assignment's records above an offset out and return them. Caller has the lock.

        A running head stays: its handler was called, whatever becomes of the result.
        """
        assert of is self.assignment
        taken: list[Message] = []
        rest = self.rest
        # A holder moves on first and lowers `running` after: what is left here is never too little.
        while rest and len(rest) >= self.running:
            try:
                if rest[-1].offset() <= above:
                    break
                taken.append(rest.pop())
            except IndexError:  # the holder took the last one in between: it has it now
                break
        self._cut_head(above, of, taken)
        return taken

    def _cut_head(self, above: int, of: Assignment, taken: list[Message]) -> None:
        head = self.head
        if head is not None and not self.running and self.assignment is of and head.offset() > above:
            taken.append(head)
            self.head = None
            self.attempts = 0
            self.retries_asked = 0

    def __len__(self) -> int:
        return (self.head is not None) + (len(self.rest) if self.rest else 0)


class SharedLane(Lane):
    """A lane of a handler-wide scope: its records come from several partitions.

    `assignment` is the head's. A turn is one record, because the next one may belong to another
    partition and the finished counts are kept per assignment.
    """

    __slots__ = ()

    def append(self, message: Message, assignment: Assignment | None = None) -> None:
        """Queue a record of that assignment behind the others. Caller has the lock."""
        if self.rest is None:
            self.rest = deque()
        self.rest.append((assignment, message))

    def may_run_head(self) -> bool:
        """Tell whether the handler may be called: a cut may have brought an unopened partition's head."""
        return self.assignment.opened and super().may_run_head()

    def lend(self, records_max: int) -> list[Message]:  # noqa: ARG002 - the next may be of another partition
        """Return the head, if it may be started."""
        return super().lend(1)

    def advance(self) -> bool:
        """Give the head its outcome; the next one is taken in settle, under the lock."""
        self.finished_records += 1
        self.finished_bytes += self.head_bytes
        self.assignment.ended_lately.append(self.head.offset())  # type: ignore[union-attr]
        self.attempts = self.retries_asked = 0
        self.head = None
        return False

    def refill(self) -> bool:
        """Take the next record, whichever partition it is from. Caller has the lock."""
        if self.head is None:
            if not self.rest:
                return False
            self.assignment, self.head = self.rest.popleft()
            self.head_bytes = size_of(self.head)
        return True

    def messages_of(self, assignment: Assignment) -> Iterator[Message]:
        """Unfinished records of one partition, oldest first. Caller has the lock."""
        if (head := self.head) is not None and self.assignment is assignment:
            yield head
        if self.rest:
            yield from (message for home, message in self.rest if home is assignment)

    def messages(self) -> Sequence[Message]:
        """All unfinished records, oldest first. Caller has the lock."""
        waiting = tuple(message for _, message in self.rest or ())
        head = self.head
        return waiting if head is None else (head, *waiting)

    def tally(self) -> Iterator[tuple[Assignment, int, int]]:
        """Yield one (assignment, records, bytes) for each unfinished record. Caller has the lock."""
        if self.head is not None:
            yield self.assignment, 1, self.head_bytes
        for home, message in self.rest or ():
            yield home, 1, size_of(message)

    def cut(self, above: int, of: Assignment) -> list[Message]:
        """Take that assignment's records above an offset out and return them. Caller has the lock."""
        taken: list[Message] = []
        kept: deque[tuple[Assignment, Message]] = deque()
        for home, message in self.rest or ():
            if home is of and message.offset() > above:
                taken.append(message)
            else:
                kept.append((home, message))
        self.rest = kept
        self._cut_head(above, of, taken)
        return taken
