"""A chunk: records of one partition that one worker runs without a look at their keys.

Pure. One after another: the worker moves nothing but a list iterator; how far that is tells exactly which
record runs, so nothing is counted per record. Whoever has the bookkeeping lock may empty the iterator at any
moment: the worker then ends after the record that runs. Or all at once, in a batch: then there is no
iterator, all run, and none is finished before the batch has ended.
"""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, cast

from ehkafka.headers.size import sizes_of, total_and_largest
from ehkafka.lanes.received import ReceivedChunk

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message

# A chunk that waits takes later records in up to here. More would keep other partitions and lanes waiting.
CHUNK_RECORDS_MAX = 1_000


class Chunk:
    """Ascending records of one assignment, none of whose keys has a lane once it was put in line.

    Stands in `Dispatcher.ready` as a lane does, and is begun and handed in like one. All but `iterator` is
    read and written under the lock.
    """

    __slots__ = (
        "assignment",
        "behind",
        "counted",
        "is_out",
        "iterator",
        "keys",
        "lanes",
        "listed",
        "messages",
        "needs_lanes",
        "received",
        "running",
        "size",
    )

    def __init__(
        self,
        assignment: Assignment,
        messages: list[Message],
        size: int,
        keys: list[Hashable] | None = None,
        *,
        needs_lanes: bool = False,
    ) -> None:
        """Take `messages` and `keys` over: the lists are the chunk's own from here on.

        `size` is the messages' in bytes. Without `keys`, they can be read from the messages at any time.
        """
        self.assignment = assignment
        # Once it was ended early: only what had started by then.
        self.messages = messages
        self.size = size
        # One for each message, and more behind them once it was ended early.
        self.keys = keys
        # Some record's key is a failure: it must not be handled, so all are spread.
        self.needs_lanes = needs_lanes
        # In line for a worker, or with one: its records are its worker's, but for what `Express.end_early`
        # takes. At most one of an assignment, its first.
        self.is_out = False
        # What the worker iterates over; None while it waits for its turn, and in a batch. In a stream it gets
        # its messages from `counted`, which counts what it takes from `listed`; else it is `listed` itself,
        # the list's iterator.
        self.iterator: Iterator[Message] | None = None
        self.listed: Iterator[Message] | None = None
        self.counted: enumerate[Message] | None = None
        # What its messages were before their handler may have changed them. Its worker sets it before it runs
        # the first, if the handler is given messages.
        self.received: ReceivedChunk | None = None
        # Set by `Dispatcher.begin`: a worker has it. In a batch: how many records, which is all.
        self.running: int = 0
        # Ended early: the lanes of the records that ran then.
        self.lanes: list[Lane] = []
        # A stream: the lanes that wait for its end, as they have its keys. See `lanes.streams`.
        self.behind: list[Lane] | None = None

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def lane(self) -> Lane | None:
        """Ended early: the lane of the one record that ran then."""
        return self.lanes[0] if self.lanes else None

    def join(self, following: Chunk) -> None:
        """Take in the records of the next chunk, which nobody has."""
        self.messages += following.messages
        self.size += following.size
        if self.keys is not None and following.keys is not None:
            self.keys += following.keys

    def take_first(self, records: int) -> Chunk:
        """Take so many records, which are not all, away from the front of a chunk that waits."""
        messages, keys = self.messages, self.keys
        first = Chunk(
            self.assignment,
            messages[:records],
            0,
            None if keys is None else keys[:records],
            needs_lanes=self.needs_lanes,
        )
        # Of the first ones, so that little is looked at twice: the rest may be taken in parts.
        first.size = total_and_largest(first.messages)[0] if records else 0
        del messages[:records]
        if keys is not None:
            del keys[:records]
        self.size -= first.size
        return first

    def line_up(self) -> Iterator[Message]:
        """Make ready to be run."""
        self.iterator = self.listed = listed = iter(self.messages)
        if self.behind is not None:
            self.counted = enumerate(listed)
            self.iterator = map(_message, self.counted)
        return self.iterator

    def remember(self) -> None:
        """Note what the handler may change. Its worker only, before the first record."""
        messages = self.messages[:]  # in one step: the rest may be taken away meanwhile
        if messages:
            self.received = received = ReceivedChunk(messages)
            # Noted by whoever adds from here on, or here, or by both: none of them has been handled yet.
            for index, message in enumerate(self.messages[len(messages) :], len(messages)):
                received.note(index, message)

    def take(self, key: Hashable, message: Message, size: int) -> None:
        """Take one more record into a stream that nobody has yet."""
        cast("list[Hashable]", self.keys).append(key)
        self.messages.append(message)
        self.size += size

    def add(self, key: Hashable, message: Message, size: int) -> bool:
        """Take one more record at the end of a stream; False: its worker has seen the end, and is back soon.

        Caller has the lock. A list's iterator yields what is appended until it has once found nothing, and
        tells whether it has: so a record that stays in the list is one that the worker comes to. It may run
        all, this one as well, before the next line here: then the count tells that it did.
        """
        keys, listed, counted = cast("list[Hashable]", self.keys), self.listed, self.counted
        assert listed is not None
        assert counted is not None
        place = len(self.messages)
        # Both first: the worker may take the record at once.
        keys.append(key)
        if self.received is not None:
            self.received.note(place, message)
        self.messages.append(message)
        if is_at_end(listed) and taken_of(counted) <= place:
            self.messages.pop()
            keys.pop()
            return False
        self.size += size
        return True

    def started(self) -> int:
        """Return how many records have started."""
        return self.running if self.listed is None else len(self.messages) - left_in(self.listed)

    def finished(self) -> int:
        """Return how many of those have finished: all but the last, or none of a batch."""
        return max(self.started() - 1, 0) if self.listed is not None else 0

    def has_finished(self, key: Hashable) -> bool:
        """Tell whether all records of one of its known keys are finished. Caller has the lock."""
        keys = cast("list[Hashable]", self.keys)
        last = len(keys) - 1 - keys[::-1].index(key)
        # What failed keeps the iterator where it is, until its worker has taken the lock.
        return last < self.finished()

    def unfinished(self) -> list[Message]:
        """Return what may be without an outcome, in order. What runs comes first."""
        return self.messages[self.finished() :]

    def first_unfinished(self) -> Message:
        """Return the lowest record that may be without an outcome."""
        return self.messages[self.finished()]

    def in_flight(self) -> list[Message]:
        """Return what runs now. Caller has the lock; the worker may go on."""
        if self.listed is None:
            return self.messages[: self.running]
        started = self.started()
        return self.messages[max(started - 1, 0) : started]

    def take_rest(self) -> list[Message]:
        """Take away what has not started. Caller has the lock; the worker ends after the current record.

        One call empties the iterator, and under the interpreter's lock no other thread runs meanwhile: each
        record is either started by the worker or returned here.
        """
        if self.listed is None:
            return []  # a batch has started all
        rest = list(self.listed)
        # The emptied iterator says nothing any more: from here on the list alone tells what has started.
        del self.messages[len(self.messages) - len(rest) :]
        self.size -= sum(sizes_of(rest))
        return rest


_message = operator.itemgetter(1)


def taken_of(counted: enumerate[Any]) -> int:
    """Return how many items an `enumerate` has yielded, also after its end: it counts as it takes each."""
    how_it_pickles: Any = counted.__reduce__()
    return int(how_it_pickles[1][1])


def left_in(iterator: Iterator[Any]) -> int:
    """Return how many items a list's iterator has left: exact in CPython, see `has_exact_iterators`."""
    return operator.length_hint(iterator)


def is_at_end(iterator: Iterator[Any]) -> bool:
    """Tell whether a list's iterator has found nothing once: then it never looks at its list again."""
    # How it pickles: `iter`, its list and its index; at the end without an index.
    return len(iterator.__reduce__()) < 3


def has_exact_iterators() -> bool:
    """Tell whether chunks work on this interpreter: exact iterators, emptied in one step under a lock."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    try:
        return _is_exact()
    except TypeError:  # what does not pickle here does not tell either: lanes, then, and no chunks
        return False


def _is_exact() -> bool:
    items = [1, 2, 3]
    iterator = iter(items)
    seen: list[Any] = [left_in(iterator), next(iterator), left_in(iterator)]
    items.append(4)
    seen += [list(iterator), left_in(iterator)]
    ends, at_last = iter([1, 2]), iter([1])
    next(at_last)
    ended = [is_at_end(iterator), is_at_end(ends), is_at_end(at_last)]
    counted = enumerate(iter([1, 2]))
    taken = [taken_of(counted), next(counted)[1], taken_of(counted), len(list(counted)), taken_of(counted)]
    return seen == [3, 1, 2, [2, 3, 4], 0] and ended == [True, False, False] and taken == [0, 1, 1, 1, 2]
