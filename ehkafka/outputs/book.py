"""The book: all outputs that are not acknowledged, in the order in which they were made.

Workers add, the sender settles, the poll thread reads whose offsets wait and ends epochs. One lock, a leaf
but for nothing: it is taken with or without an exchange's, and no other is taken under it.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ehkafka.outputs.claim import SingleOutput
from ehkafka.outputs.ledger import OffsetLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.outputs.claim import Claim, Output

# What is on its way beside the backlog. Then workers wait for room, and so does the intake behind them.
OUTPUTS_MAX: Final = 50_000
OUTPUT_BYTES_MAX: Final = 64 * 1_048_576
# Between two looks of a waiting worker whether its epoch has ended.
ROOM_CHECK_S: Final = 50e-3

_serial_of = attrgetter("serial")


class NotSentError(RuntimeError):
    """An output was not taken: its record belongs to another member, or the app has stopped."""


class OutputBook:
    """Knows each output from the moment it is made to the moment it is safe."""

    def __init__(self, outputs_max: int = OUTPUTS_MAX, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._outputs_max = outputs_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        # All under the lock. Those that workers have added since somebody last looked, in the order of their
        # making; they are sorted in by `_sort_in`, many at a time.
        self._added: deque[Output] = deque()
        # All others: those of one record alone by its assignment, the rest beside them with what the ledger
        # has of their records. Serial numbers say in which order they were made.
        self._singles: dict[Assignment, dict[SingleOutput, None]] = {}
        self._outputs: dict[Output, None] = {}
        self._ledger = OffsetLedger()
        self._serial = 0
        # Of these, what the sender has not taken yet.
        self._new: list[Output] = []
        # Of all. Read without the lock, too.
        self._count = 0
        self._bytes = 0
        self.is_closed = False
        # Called after something was added while the sender sleeps. Set once, by the sender.
        self.wake: Callable[[], object] = lambda: None
        # The sender's: set before it looks whether anything is new and then sleeps; whoever adds looks at it
        # after adding. So one of the two sees the other, and a busy sender costs no wake-up for each output.
        self.sleeps = False

    def has_room(self) -> bool:
        """Tell whether a worker may add without waiting."""
        return self._count < self._outputs_max and self._bytes < self._bytes_max

    def add(self, claim: Claim, outputs: Sequence[Output], *, waits: bool = True) -> None:
        """Take outputs, together and in this order; from here on their inputs wait. On their worker.

        Waits for room if it may: never on a thread that others need. Raises `NotSentError` where the epoch of
        an input has ended.
        """
        with self._lock:
            if waits and not self.has_room():
                self._wait_for_room(claim)
            # Under the lock, and `ended` is set before `end` takes it: an output is either refused here or
            # dropped there.
            if self.is_closed or claim.has_ended:
                raise self._not_sent(claim)
            if claim.unsettled == 0:
                self._ledger.claim(claim.inputs)
            claim.unsettled += len(outputs)
            claim.posted += len(outputs)
            self._added.extend(outputs)
            self._count += len(outputs)
            self._bytes += sum([output.size for output in outputs])
        if self.sleeps:
            self.wake()

    def add_single(self, output: SingleOutput) -> None:
        """Take the one output of a call; from here on its record waits. On its worker.

        Waits for room. Raises `NotSentError` as `add` does.
        """
        with self._lock:
            if self._count >= self._outputs_max or self._bytes >= self._bytes_max:
                self._wait_for_room(output)
            # See `add`.
            if self.is_closed or output.assignment.ended:
                raise self._not_sent(output)
            self._added.append(output)
            self._count += 1
            self._bytes += output.size
        if self.sleeps:
            self.wake()

    def _not_sent(self, of: Claim | SingleOutput) -> NotSentError:
        why = "the app stops" if self.is_closed else "its partition was taken away"
        return NotSentError(f"{of.where}: its outputs are not sent: {why}")

    def _wait_for_room(self, of: Claim | SingleOutput) -> None:
        """Wait, with the lock let go meanwhile."""
        while not (self.has_room() or self.is_closed or of.has_ended):
            self._room.wait(ROOM_CHECK_S)

    def _sort_in(self) -> None:
        """Put what was added where it is known by its records. Caller has the lock."""
        if not self._added:
            return
        serial, assignment = self._serial, None
        its: dict[SingleOutput, None] = {}
        for output in self._added:
            serial += 1
            output.serial = serial
            if type(output) is SingleOutput:
                # Those of a chunk come one after another.
                if output.assignment is not assignment:
                    assignment = output.assignment
                    its = self._singles.setdefault(assignment, {})
                its[output] = None
            else:
                self._outputs[output] = None
        self._serial = serial
        self._new += self._added
        self._added.clear()

    def has_new(self) -> bool:
        """Tell whether anything was added since it was taken. Any thread."""
        return bool(self._added or self._new)

    def take_new(self) -> list[Output]:
        """Return what was added since. Sender only."""
        with self._lock:
            self._sort_in()
            new, self._new = self._new, []
        return new

    def take_all(self) -> list[Output]:
        """Return everything in its order, what is new as well. Sender only."""
        with self._lock:
            self._sort_in()
            self._new = []
            return sorted([*self._outputs, *chain.from_iterable(self._singles.values())], key=_serial_of)

    def settle(self, outputs: Iterable[Output], *, acknowledged: bool = True) -> None:
        """Let go of outputs: safe, or given up by a decision. The sender, or whoever ends their epoch."""
        waiters: list[Callable[[], object]] = []
        with self._room:
            self._sort_in()
            for output in outputs:
                if type(output) is SingleOutput:
                    its = self._singles.get(output.assignment)
                    if its is not None and its.pop(output, output) is None:
                        self._count -= 1
                        self._bytes -= output.size
                    continue
                if self._outputs.pop(output, output) is output:
                    continue  # its epoch has ended
                self._count -= 1
                self._bytes -= output.size
                claim = output.claim
                claim.acknowledged += acknowledged
                claim.unsettled -= 1
                if claim.unsettled == 0:
                    self._ledger.release(claim.inputs)
                    if claim.on_settled is not None:
                        waiters.append(claim.on_settled)
            self._room.notify_all()
        for waiter in waiters:
            waiter()

    def when_settled(self, claim: Claim, waiter: Callable[[], object]) -> bool:
        """Call `waiter` once nothing of a claim is left; False: nothing is left now."""
        with self._lock:
            if claim.unsettled == 0:
                return False
            claim.on_settled = waiter
            return True

    def waiting(self, assignment: Assignment) -> frozenset[int]:
        """Return the offsets of an assignment that must not be committed. Any thread."""
        with self._lock:
            self._sort_in()
            waiting = self._ledger.waiting(assignment)
            singles = list(self._singles.get(assignment, ()))
        # Outside of the lock: there may be thousands, and workers would wait.
        return waiting | {single.message.offset() for single in singles} if singles else waiting

    def has_waiting(self, assignment: Assignment) -> bool:
        """Tell whether there are any. Any thread."""
        with self._lock:
            self._sort_in()
            return self._ledger.has(assignment) or bool(self._singles.get(assignment))

    def key_of(self, assignment: Assignment, offset: int) -> bytes | None:
        """Return the key of a record that waits. Any thread; looks at each output until it is found."""
        place = assignment, offset
        key: bytes | None
        with self._lock:
            self._sort_in()
            for single in self._singles.get(assignment, ()):
                if single.message.offset() == offset:
                    key = single.message.key()
                    return key
            for output in self._outputs:
                if place in (claim := output.claim).inputs:
                    messages = claim.messages if isinstance(claim.messages, list) else [claim.messages]
                    key = messages[claim.inputs.index(place)].key()
                    return key
        return None  # acknowledged meanwhile

    def count(self) -> int:
        """Return how many outputs are not acknowledged. Any thread."""
        return self._count

    def end(self, assignments: Iterable[Assignment]) -> bool:
        """Drop what is left of epochs that have ended; True: some may be with a producer.

        `ended` of each is set before. An output of records of several partitions stays while one of them is
        ours, unless it is of one of the others alone.
        """
        with self._room:
            self._sort_in()
            dropped: list[Output] = [output for output in self._outputs if output.has_ended]
            for output in dropped:
                if output.claim.is_gone:
                    output.claim.on_settled = None  # nobody waits: its record has no outcome here any more
            for assignment in assignments:
                self._ledger.end(assignment)
            for assignment in [one for one in self._singles if one.ended]:
                for output in self._singles.pop(assignment):
                    self._count -= 1
                    self._bytes -= output.size
                    dropped.append(output)
            for output in dropped:
                output.is_dropped = True
        self.settle(dropped, acknowledged=False)
        return bool(dropped)

    def close(self) -> None:
        """Take nothing any more; who waits for room is let go."""
        with self._room:
            self.is_closed = True
            self._room.notify_all()
