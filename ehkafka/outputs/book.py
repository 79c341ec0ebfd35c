"""The book: all outputs that are not acknowledged, in the order in which they were made.

Workers add, the sender settles, the poll thread reads whose offsets wait and ends epochs. One lock, a leaf
but for nothing: it is taken with or without an exchange's, and no other is taken under it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

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


class NotSentError(RuntimeError):
    """An output was not taken: its record belongs to another member, or the app has stopped."""


class OutputBook:
    """Knows each output from the moment it is made to the moment it is safe."""

    def __init__(self, outputs_max: int = OUTPUTS_MAX, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._outputs_max = outputs_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        # All under the lock. By serial number, so in the order of their making.
        self._outputs: dict[int, Output] = {}
        self._serial = 0
        self._bytes = 0
        self._new: deque[Output] = deque()
        self._ledger = OffsetLedger()
        self.is_closed = False
        # Called after something was added while the sender sleeps. Set once, by the sender.
        self.wake: Callable[[], object] = lambda: None
        # The sender's: set before it looks whether anything is new and then sleeps; whoever adds looks at it
        # after adding. So one of the two sees the other, and a busy sender costs no wake-up for each output.
        self.sleeps = False

    def has_room(self) -> bool:
        """Tell whether a worker may add without waiting."""
        return len(self._outputs) < self._outputs_max and self._bytes < self._bytes_max

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
                why = "the app stops" if self.is_closed else "its partition was taken away"
                raise NotSentError(f"{claim.where}: its outputs are not sent: {why}")
            if claim.unsettled == 0:
                self._ledger.claim(claim.inputs)
            claim.unsettled += len(outputs)
            claim.posted += len(outputs)
            for output in outputs:
                self._serial += 1
                output.serial = self._serial
                self._outputs[output.serial] = output
                self._bytes += output.size
            self._new.extend(outputs)
        if self.sleeps:
            self.wake()

    def _wait_for_room(self, claim: Claim) -> None:
        """Wait, with the lock let go meanwhile."""
        while not (self.has_room() or self.is_closed or claim.has_ended):
            self._room.wait(ROOM_CHECK_S)

    def has_new(self) -> bool:
        """Tell whether anything was added since it was taken. Any thread."""
        return bool(self._new)

    def take_new(self) -> list[Output]:
        """Return what was added since. Sender only."""
        with self._lock:
            new = list(self._new)
            self._new.clear()
        return new

    def take_all(self) -> list[Output]:
        """Return everything in its order, what is new as well. Sender only."""
        with self._lock:
            self._new.clear()
            return list(self._outputs.values())

    def settle(self, outputs: Iterable[Output], *, acknowledged: bool = True) -> None:
        """Let go of outputs: safe, or given up by a decision. The sender, or whoever ends their epoch."""
        waiters: list[Callable[[], object]] = []
        with self._room:
            for output in outputs:
                if self._outputs.pop(output.serial, None) is None:
                    continue  # its epoch has ended
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
            return self._ledger.waiting(assignment)

    def has_waiting(self, assignment: Assignment) -> bool:
        """Tell whether there are any. Any thread."""
        with self._lock:
            return self._ledger.has(assignment)

    def key_of(self, assignment: Assignment, offset: int) -> bytes | None:
        """Return the key of a record that waits. Any thread; looks at each output until it is found."""
        place = assignment, offset
        with self._lock:
            for output in self._outputs.values():
                if place in (claim := output.claim).inputs:
                    messages = claim.messages if isinstance(claim.messages, list) else [claim.messages]
                    key: bytes | None = messages[claim.inputs.index(place)].key()
                    return key
        return None  # acknowledged meanwhile

    def count(self) -> int:
        """Return how many outputs are not acknowledged. Any thread."""
        return len(self._outputs)

    def end(self, assignments: Iterable[Assignment]) -> bool:
        """Drop what is left of epochs that have ended; True: some may be with a producer.

        `ended` of each is set before. An output of records of several partitions stays while one of them is
        ours, unless it is of one of the others alone.
        """
        with self._room:
            for assignment in assignments:
                self._ledger.end(assignment)
            dropped = [output for output in self._outputs.values() if output.has_ended]
            for output in dropped:
                output.is_dropped = True
                if output.claim.is_gone:
                    output.claim.on_settled = None  # nobody waits: its record has no outcome here any more
        self.settle(dropped, acknowledged=False)
        return bool(dropped)

    def close(self) -> None:
        """Take nothing any more; who waits for room is let go."""
        with self._room:
            self.is_closed = True
            self._room.notify_all()
