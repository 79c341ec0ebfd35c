"""The book: all outputs that are not acknowledged, in the order in which they were made.

Workers add, the sender settles, the poll thread reads whose offsets wait and ends epochs. One lock, a leaf
but for nothing: it is taken with or without a hub's, and no other is taken under it.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from itertools import chain, groupby, repeat, starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ehkafka.outputs.batch import OutputBatch
from ehkafka.outputs.bundle import Apart, Bundle, Columns
from ehkafka.outputs.claim import SingleOutput
from ehkafka.outputs.ledger import OffsetLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.claim import Claim, Output
    from ehkafka.outputs.outlet import Outlet

    # The one small output of a call, with a key: outlet, epoch, message, key, value and headers.
    Plain: TypeAlias = tuple[Outlet, Epoch, Any, bytes, bytes, Any]

# What is on its way beside the backlog. Then workers wait for room, and so does the intake behind them.
OUTPUTS_MAX: Final = 50_000
OUTPUT_BYTES_MAX: Final = 64 * 1_048_576
# How many things are added for each output; for one that is not plain: None, the output, and nothing else.
PARTS: Final = 6
_NOTHING: Final = (None,) * (PARTS - 2)
# So many plain outputs may wait for the sender to look: their bytes count only then.
ADDED_MAX: Final = 4_096
PLAIN_BYTES_MAX: Final = 16 * 1024
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
        # What workers have added since somebody last looked, in the order of its making: `PARTS` for each
        # output, and no tuple of them, which Python's garbage collector would follow. `extend` by a tuple or
        # a list is atomic, and of a key only one worker adds at a time. `_sort_in` takes it out, under the
        # lock.
        self.added: deque[Any] = deque()
        # All under the lock. Those of one record alone by its epoch, in bundles and by themselves; the
        # rest beside them with what the ledger has of their records. Serial numbers say in which order they
        # were made.
        self._bundles: dict[Epoch, dict[Bundle, None]] = {}
        self._singles: dict[Epoch, dict[SingleOutput, None]] = {}
        self._outputs: dict[Output, None] = {}
        self._ledger = OffsetLedger()
        self._serial = 0
        # Something of a bundle was dropped before `end` came to it: a producer may have it.
        self._has_dropped = False
        # Of these, what the sender has not taken yet.
        self._new: list[Output | Bundle] = []
        # Of all that was taken out of `_added`; bytes also of what is not plain there. Read without the lock.
        self._count = 0
        self._bytes = 0
        self.is_closed = False
        # Nothing may be added without the lock: there is no room, or it is closed. Written under the lock.
        self.is_full = False
        # Called after something was added while the sender sleeps. Set once, by the sender.
        self.wake: Callable[[], object] = lambda: None
        # The sender's: set before it looks whether anything is new and then sleeps; whoever adds looks at it
        # after adding. So one of the two sees the other, and a busy sender costs no wake-up for each output.
        self.sleeps = False

    def has_room(self) -> bool:
        """Tell whether a worker may add without waiting."""
        return self.count() < self._outputs_max and self._bytes < self._bytes_max

    def add(self, claim: Claim, outputs: Sequence[Output], *, waits: bool = True) -> None:
        """Take outputs, together and in this order; from here on their inputs wait. On their worker.

        Waits for room if it may: never on a thread that others need. Raises `NotSentError` where the epoch of
        an input has ended.
        """
        with self._lock:
            if waits and not self.has_room():
                self._wait_for_room(lambda: claim.has_ended)
            # Under the lock, and `ended` is set before `end` takes it: an output is either refused here or
            # dropped there.
            if self.is_closed or claim.has_ended:
                raise self._not_sent(claim.where)
            if claim.unsettled == 0:
                self._ledger.claim(claim.inputs)
            claim.unsettled += len(outputs)
            claim.posted += len(outputs)
            self._bytes += sum([output.size for output in outputs])
            self.added.extend([part for output in outputs for part in self._parts(output)])
        if self.sleeps:
            self.wake()

    @staticmethod
    def _parts(output: Any) -> tuple[Any, ...]:
        """Return what is added for an output that is not plain."""
        return (None, output, *_NOTHING)

    def add_plain(self, plain: Plain, *, waits: bool = True) -> None:
        """Take the one output of a call; from here on its record waits. On its worker.

        Waits for room if it may. Raises `NotSentError` as `add` does. `Outlet` has the short way in itself.
        It takes no lock: if its epoch ends at that moment, the output is dropped.
        """
        _, epoch, message, *_ = plain
        if self.is_full or epoch.ended or len(self.added) >= ADDED_MAX * PARTS:
            with self._lock:
                self._sort_in()
                if waits:
                    self._wait_for_room(lambda: epoch.ended)
                if self.is_closed or epoch.ended:
                    raise self._not_sent(f"{epoch.partition}@{message.offset()}")
        self.added.extend(plain)
        if self.sleeps:
            self.wake()

    def add_single(self, output: SingleOutput, *, waits: bool = True) -> None:
        """Do the same for an output that is not plain."""
        with self._lock:
            if waits and not self.has_room():
                self._wait_for_room(lambda: output.has_ended)
            # See `add`.
            if self.is_closed or output.epoch.ended:
                raise self._not_sent(output.where)
            self._bytes += output.size
            self.added.extend(self._parts(output))
        if self.sleeps:
            self.wake()

    def _not_sent(self, where: str) -> NotSentError:
        why = "the app stops" if self.is_closed else "its partition was taken away"
        return NotSentError(f"{where}: its outputs are not sent: {why}")

    def _wait_for_room(self, has_ended: Callable[[], bool]) -> None:
        """Wait, with the lock let go meanwhile."""
        while not (self.has_room() or self.is_closed or has_ended()):
            self._room.wait(ROOM_CHECK_S)

    def _sort_in(self) -> None:
        """Put what was added where it is known by its records. Caller has the lock."""
        added = self.added
        count = len(added) // PARTS
        if not count:
            return
        # First: whoever reads the sum of both without the lock must never find too few.
        self._count += count
        taken = list(starmap(added.popleft, repeat((), count * PARTS)))
        start = 0
        for outlet, same in groupby(taken[::PARTS]):
            stop = start + len(list(same)) * PARTS
            _, *columns = (taken[start + part : stop : PARTS] for part in range(PARTS))
            if outlet is None:
                for output in columns[0]:
                    self._sort_in_output(output)
            else:
                self._sort_in_bundle(outlet, columns)
            start = stop
        self._note_room()

    def _note_room(self) -> None:
        self.is_full = self.is_closed or not self.has_room()

    def _sort_in_output(self, output: Output) -> None:
        self._serial += 1
        output.serial = self._serial
        if type(output) is SingleOutput:
            self._singles.setdefault(output.epoch, {})[output] = None
        else:
            self._outputs[output] = None
        self._new.append(output)

    def _sort_in_bundle(self, outlet: Outlet, columns: list[Any]) -> None:
        first = self._serial + 1
        self._serial += len(columns[0])
        bundle = Bundle(outlet, Columns.of((*columns, range(first, self._serial + 1))))
        self._bytes += bundle.size
        self._register(bundle)
        self._new.append(bundle)

    def _register(self, bundle: Bundle) -> None:
        for epoch in bundle.epochs:
            self._bundles.setdefault(epoch, {})[bundle] = None

    def _unregister(self, bundle: Bundle) -> bool:
        """Forget a bundle; tell whether it was known."""
        was_known = False
        for epoch in bundle.epochs:
            bundles = self._bundles.get(epoch, {})
            if bundles.pop(bundle, bundle) is None:
                was_known = True
                if not bundles:
                    del self._bundles[epoch]
        return was_known

    def has_new(self) -> bool:
        """Tell whether anything was added since it was taken. Any thread."""
        # Under the lock: while somebody sorts in, what is taken out of one does not stand in the other.
        with self._lock:
            return bool(self.added or self._new)

    def take_new(self) -> list[Output | Bundle]:
        """Return what was added since. Sender only."""
        with self._lock:
            self._sort_in()
            new, self._new = self._new, []
        return new

    def take_all(self) -> list[Output]:
        """Return everything in its order, what is new as well; no bundle is left. Sender only."""
        with self._lock:
            self._sort_in()
            self._new = []
            for bundle in set(chain.from_iterable(self._bundles.values())):
                self._take_apart(bundle)
            return sorted([*self._outputs, *chain.from_iterable(self._singles.values())], key=_serial_of)

    def take_apart(self, bundle: Bundle) -> Apart:
        """Make single outputs of a bundle that is not settled, and let go of what is safe. Sender only."""
        with self._lock:
            return self._take_apart(bundle)

    def _take_apart(self, bundle: Bundle) -> Apart:
        self._unregister(bundle)
        safe, sent, rest = bundle.apart()
        self._let_go(safe)
        self._register_singles(chain(sent, rest))
        self._room.notify_all()
        return Apart(bundle, sent, rest)

    def divide(self, bundle: Bundle, partitions: Sequence[int | None]) -> list[Output | Bundle]:
        """Make a batch of what goes to each partition, and single outputs of what has None; return them.

        Sender only, before anything of it is sent. No key is in both.
        """
        with self._lock:
            parts, singles = bundle.divided(partitions)
            batches = [OutputBatch(bundle.outlet, columns, partition) for partition, columns in parts]
            self._unregister(bundle)
            for batch in batches:
                self._register(batch)
            self._register_singles(singles)
        return [*batches, *singles]

    def cut(self, batch: OutputBatch) -> OutputBatch | None:
        """Leave what was sent in a batch and return the rest; None: nothing was sent. Sender only."""
        with self._lock:
            self._unregister(batch)
            columns = batch.cut()
            rest = None if columns is None else OutputBatch(batch.outlet, columns, batch.partition)
            self._register(batch)
            if rest is not None:
                self._register(rest)
        return rest

    def _register_singles(self, outputs: Iterable[SingleOutput]) -> None:
        for output in outputs:
            # Set before `end` takes the lock: whatever is registered here is dropped there.
            if output.epoch.ended:
                output.is_dropped = self._has_dropped = True
                self._let_go([output])
            else:
                self._singles.setdefault(output.epoch, {})[output] = None

    def _let_go(self, outputs: Sequence[Output] | Bundle) -> None:
        self._count -= len(outputs)
        self._bytes -= outputs.size if isinstance(outputs, Bundle) else sum([one.size for one in outputs])
        self._note_room()

    def settle(self, outputs: Iterable[Output | Bundle], *, acknowledged: bool = True) -> None:
        """Let go of outputs: safe, or given up by a decision. The sender, or whoever ends their epoch."""
        waiters: list[Callable[[], object]] = []
        with self._room:
            self._sort_in()
            for output in outputs:
                if isinstance(output, Bundle):
                    if self._unregister(output):
                        self._let_go(output)
                    continue
                if type(output) is SingleOutput:
                    its = self._singles.get(output.epoch)
                    if its is not None and its.pop(output, output) is None:
                        self._let_go([output])
                    continue
                if self._outputs.pop(output, output) is output:
                    continue  # its epoch has ended
                self._let_go([output])
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

    def waiting(self, epoch: Epoch) -> frozenset[int]:
        """Return the offsets of an epoch that must not be committed. Any thread."""
        with self._lock:
            self._sort_in()
            waiting = self._ledger.waiting(epoch)
            singles = list(self._singles.get(epoch, ()))
            bundles = list(self._bundles.get(epoch, ()))
        # Outside of the lock: there may be thousands, and workers would wait.
        return waiting.union(
            [single.message.offset() for single in singles], *[one.offsets(epoch) for one in bundles]
        )

    def lowest_waiting(self, epoch: Epoch) -> int | None:
        """Return the lowest of the same, None where there is none. Any thread."""
        with self._lock:
            self._sort_in()
            claimed = self._ledger.waiting(epoch)
            singles = list(self._singles.get(epoch, ()))
            bundles = list(self._bundles.get(epoch, ()))
        lowest = [min(found) for found in (claimed, [one.message.offset() for one in singles]) if found]
        return min([*lowest, *[bundle.lowest(epoch) for bundle in bundles]], default=None)

    def has_waiting(self, epoch: Epoch) -> bool:
        """Tell whether there are any. Any thread."""
        with self._lock:
            self._sort_in()
            by_epoch = self._bundles, self._singles
            return self._ledger.has(epoch) or any(bool(one.get(epoch)) for one in by_epoch)

    def key_of(self, epoch: Epoch, offset: int) -> bytes | None:
        """Return the key of a record that waits. Any thread; looks at each output until it is found."""
        place = epoch, offset
        key: bytes | None
        with self._lock:
            self._sort_in()
            messages = [single.message for single in self._singles.get(epoch, ())]
            for bundle in self._bundles.get(epoch, ()):
                messages += bundle.messages_of(epoch)
            for message in messages:
                if message.offset() == offset:
                    key = message.key()
                    return key
            for output in self._outputs:
                if place in (claim := output.claim).inputs:
                    messages = claim.messages if isinstance(claim.messages, list) else [claim.messages]
                    key = messages[claim.inputs.index(place)].key()
                    return key
        return None  # acknowledged meanwhile

    def count(self) -> int:
        """Return how many outputs are not acknowledged. Any thread."""
        # In this order: `_sort_in` counts what it takes out before it does.
        return len(self.added) // PARTS + self._count

    def end(self, epochs: Iterable[Epoch]) -> bool:
        """Drop what is left of epochs that have ended; True: a producer, or a bundle, may have some.

        `ended` of each is set before. What is in bundles is dropped by the sender. An output of records of
        several partitions stays while one of them is ours, unless it is of one of the others alone.
        """
        with self._room:
            self._sort_in()
            dropped: list[Output] = [output for output in self._outputs if output.has_ended]
            for claim in {output.claim for output in dropped}:
                if claim.is_gone and claim.on_settled is not None and claim.on_refused is not None:
                    # Its key waits for them, also in the partition's next epoch here. They are given up now.
                    claim.on_settled = partial(claim.on_refused, self._not_sent(claim.where))
            for epoch in epochs:
                self._ledger.end(epoch)
            for epoch in [one for one in self._singles if one.ended]:
                singles = list(self._singles.pop(epoch))
                self._let_go(singles)
                dropped += singles
            for output in dropped:
                output.is_dropped = True
            others = self._has_dropped or any(one.ended for one in self._bundles)
            self._has_dropped = False
        self.settle(dropped, acknowledged=False)
        return bool(dropped) or others

    def close(self) -> None:
        """Take nothing any more; who waits for room is let go."""
        with self._room:
            self.is_closed = self.is_full = True
            self._room.notify_all()
