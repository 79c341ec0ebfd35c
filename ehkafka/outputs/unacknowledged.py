"""All outputs that are not acknowledged, in the order in which they were put.

Workers put outputs, the sender moves and removes them, and the poll thread reads whose offsets wait and ends
epochs. One lock, a leaf: a thread may hold a hub's lock when it takes this one, and takes no other under it.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import chain, repeat, starmap
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.output import (
    PARTS,
    SOURCE,
    Output,
    Source,
    entries_of,
    has_ended,
    outputs_of,
    places_of,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.batch import OutputBatch
    from ehkafka.outputs.round_robin import Line

# At so many unacknowledged outputs or bytes workers wait for room, and nothing more is received.
OUTPUTS_MAX: Final = 50_000
OUTPUT_BYTES_MAX: Final = 64 * 1_048_576
# Bytes of small outputs are counted when the sender takes them, or when so many more wait for it.
COUNT_EACH: Final = 4_096
SMALL_BYTES_MAX: Final = 16 * 1024
# While so many wait for the sender, nothing more is received.
BEHIND: Final = 10_000
# A worker that waits for room checks after this time whether its epoch has ended.
ROOM_CHECK_S: Final = 50e-3


class NotSentError(RuntimeError):
    """An output was not put: another member has its record, or the app has stopped."""


class Unacknowledged:
    """Keeps each output from the moment when it is put until it is acknowledged.

    Invariant: whenever no thread has the lock, each output that is put and not acknowledged is in one of the
    lists below.
    """

    def __init__(
        self, outputs_max: int = OUTPUTS_MAX, bytes_max: int = OUTPUT_BYTES_MAX, *, waits: bool = True
    ) -> None:
        """Not `waits`: workers never wait for room; the intake looks at `is_over_bound`."""
        self._outputs_max = outputs_max
        self._bytes_max = bytes_max
        self._waits = waits
        self.lock = threading.Lock()
        self._room = threading.Condition(self.lock)
        # New outputs, flat. `extend` by a tuple or a list is atomic, and only one worker at a time puts
        # outputs of a key. The sender removes them under the lock.
        self.added: deque[Any] = deque()
        # All under the lock, changed by the sender alone, each in the order of the puts. What the client has;
        # flat: what waits for its partition's turn, or for the first acknowledgement of its key.
        self.batches: dict[OutputBatch, None] = {}
        self.lines: dict[Line, list[Any]] = {}
        # Exactly once: what a transaction has, and what waits for one; flat.
        self.sent: list[Any] = []
        self.parked: list[Any] = []
        # By group, or by an object of its own if the group is None: outputs that are sent one by one; see
        # `aside`.
        self.aside: dict[object, deque[Output]] = {}
        # Those of them that wait for the next start: no stop or revoke waits for them.
        self.kept: set[object] = set()
        # Count and bytes of the outputs in the other lists, and the counted bytes of `added`. Under the lock.
        self._taken = 0
        self._bytes = 0
        self._added_bytes = 0
        # When `added` has so many parts, a worker counts its bytes. Written under the lock.
        self.count_at = COUNT_EACH * PARTS
        self.is_closed = False
        # There is no room, or it is closed: a worker that puts must take the lock. Written under the lock.
        self.is_full = False
        # Called after a put while the sender sleeps. Set once, by the sender.
        self.wake: Callable[[], object] = lambda: None
        # The sender sets it, then looks for new outputs, and then sleeps. A worker puts first and reads it
        # second. So one of the two notices the other, and no output wakes a sender that is busy.
        self.sleeps = False

    # -- workers ---------------------------------------------------------------------------------------

    def put(self, source: Entry | Source, flat: Sequence[object], size: int, *, waits: bool = True) -> None:
        """Add a call's outputs, together and in this order. From here on their records wait.

        With `waits` it may wait for room: never on a thread that other records need. Raises `NotSentError` if
        the epoch has ended. If the epoch ends at this very moment, the outputs are dropped later: the end of
        an epoch looks at `added` under the lock, and the sender looks at each output before it hands it over.
        """
        if self.is_full and waits and self._waits:
            self.wait_for_room(source)
        if self.is_closed or has_ended(source):
            raise self._not_sent(source)
        self.added.extend(flat)
        if len(self.added) >= self.count_at or size > SMALL_BYTES_MAX:
            with self.lock:
                self._count_added()
        if self.sleeps:
            self.wake()

    def _not_sent(self, source: Entry | Source) -> NotSentError:
        where = next((f"{epoch.partition}@{offset}" for epoch, offset in places_of([source])), "app.producer")
        why = "the app is stopping" if self.is_closed else "the partition was taken away"
        return NotSentError(f"The outputs of {where} are not sent: {why}")

    def has_room(self) -> bool:
        """Tell whether a worker may put without waiting."""
        return not self._waits or not self.is_over_bound()

    def wait_for_room(self, source: Entry | Source) -> bool:
        """Wait until a put of this source would not wait; False: it has ended meanwhile."""
        with self.lock:
            while self.is_over_bound() and not (self.is_closed or has_ended(source)):
                self.is_full = True
                self._room.wait(ROOM_CHECK_S)
            return self.is_closed or not self.is_over_bound()

    def _count_added(self) -> None:
        """Count the bytes put since the last count: if a worker counted all, its call would look slow."""
        # `list` reads a deque in one call. Workers put meanwhile, so an iterator that is made in one call and
        # read in the next could raise; the attempt would fail after its outputs are put.
        new = list(self.added)
        parts = max(len(new) + COUNT_EACH * PARTS - self.count_at, 0)
        self._added_bytes += size_of(new[len(new) - parts :])
        self.count_at += parts
        self.note_room()

    def is_over_bound(self) -> bool:
        """Tell whether the bound is reached, so that nothing more should be received.

        Any thread; without the lock it may not see what the sender is moving.
        """
        # Once `added` is empty its counted bytes are void: a put that came too late may have been counted.
        added_bytes = self._added_bytes if self.added else 0
        return self._count() >= self._outputs_max or self._bytes + added_bytes >= self._bytes_max

    def is_behind(self) -> bool:
        """Tell whether the sender is so far behind that nothing more should be received. Any thread.

        Otherwise workers would wait for room. A call that waits looks like a slow one, and its worker's other
        records would be moved to other workers.
        """
        return len(self.added) >= BEHIND * PARTS or self.is_over_bound()

    def note_room(self) -> None:
        """Tell workers whether there is room. The caller has the lock."""
        if self.is_full:  # else none waits
            self._room.notify_all()
        self.is_full = self.is_closed or (self._waits and self.is_over_bound())

    # -- the sender ------------------------------------------------------------------------------------

    def take(self, outputs_max: int) -> list[Any]:
        """Remove up to so many outputs from `added`, flat. The caller has the lock, and keeps them."""
        added = self.added
        count = min(len(added) // PARTS, outputs_max)
        taken = list(starmap(added.popleft, repeat((), count * PARTS)))
        size = size_of(taken)
        self._taken += count
        self._bytes += size
        # Of the rest, the counted outputs are at the left end.
        self._added_bytes = max(0, self._added_bytes - size) if added else 0
        self.count_at = max(self.count_at - len(taken), COUNT_EACH * PARTS)
        return taken

    def put_back(self, flat: Sequence[object]) -> None:
        """Put outputs back into `added`, in front. The caller has the lock."""
        size = size_of(flat)
        self._taken -= len(flat) // PARTS
        self._bytes -= size
        self._added_bytes += size
        self.count_at += len(flat)
        self.added.extendleft(reversed(flat))

    def let_go(self, flat: Sequence[object]) -> None:
        """Stop counting outputs. The caller has the lock, and has removed them from their list."""
        self._taken -= len(flat) // PARTS
        self._bytes -= size_of(flat)
        if self.is_full:
            self.note_room()

    # -- any thread ------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return how many outputs are not acknowledged."""
        with self.lock:
            return self._count()

    def _count(self) -> int:
        return len(self.added) // PARTS + self._taken

    def is_under_way(self) -> bool:
        """Tell whether some output may still be acknowledged."""
        with self.lock:
            return self._count() > sum(len(self.aside[place]) for place in self.kept)

    def sources(self, *, with_kept: bool = True) -> Iterator[Entry | Source]:
        """Return the source of each output."""
        with self.lock:
            # In one call: workers put meanwhile, and an iterator over a deque would raise.
            added = list(self.added)[SOURCE::PARTS]
            flats = [flat[SOURCE::PARTS] for flat in (self.sent, self.parked, *self.lines.values())]
            places = self.aside.keys() - (() if with_kept else self.kept)
            batches, aside = list(self.batches), [one for place in places for one in self.aside[place]]
        # Without the lock: there may be thousands, and the sender would wait.
        batched = (batch.flat[SOURCE::PARTS] for batch in batches)
        return chain(added, *batched, *flats, [output.source for output in aside])

    def lowest(self, *, with_kept: bool = True) -> dict[Epoch, int]:
        """Return each epoch's lowest offset with an unacknowledged output: a commit stops there."""
        lowest: dict[Epoch, int] = {}
        others: list[Entry | Source] = []
        for source in self.sources(with_kept=with_kept):
            if type(source) is not tuple:
                others.append(source)
                continue
            # The same as `places_of`, but cheaper: each commit looks at all unacknowledged outputs.
            epoch, offset = source[EPOCH], source[MESSAGE].offset()
            if lowest.get(epoch, offset) >= offset:
                lowest[epoch] = offset
        for epoch, offset in places_of(others):
            lowest[epoch] = min(offset, lowest.get(epoch, offset))
        return lowest

    def waiting_epochs(self) -> set[Epoch]:
        """Return the epochs with outputs that may still be acknowledged."""
        return {*self.lowest(with_kept=False)}

    def waiting(self) -> dict[Epoch, set[int]]:
        """Return the offsets of each epoch's records with unacknowledged outputs."""
        waiting: dict[Epoch, set[int]] = {}
        for epoch, offset in places_of(self.sources()):
            waiting.setdefault(epoch, set()).add(offset)
        return waiting

    def behind(self, output: Output) -> list[Output]:
        """Return an output that is sent by itself, with those that wait behind it."""
        with self.lock:
            return list(self.aside.get(output.group, (output,)))

    def key_of(self, epoch: Epoch, offset: int) -> bytes | None:
        """Return the key of such a record; None if its outputs were acknowledged meanwhile."""
        for source in self.sources():
            for message, _, _, its_epoch in entries_of(source):
                if its_epoch is epoch and message.offset() == offset:
                    return message.key()
        return None

    # -- the end ---------------------------------------------------------------------------------------

    def end(self) -> bool:
        """Drop the outputs of epochs that have ended; True: a client may have more of them. Poll thread.

        An output of records of several partitions is kept while this app still has one of them.
        """
        with self.lock:
            dropped: list[Output] = []
            # A transaction may divide the old list now: it compares, and finds this new one.
            self.parked, added = self.parked.copy(), self.take(len(self.added))
            for flat in (added, self.parked, *self.lines.values()):
                flat[:] = chain.from_iterable(self.without_ended(outputs_of(flat), dropped))
            self.put_back(added)
            with_clients = chain(chain.from_iterable(self.batches), *self.aside.values())
            others = any(output.has_ended for output in with_clients)
            self.note_room()
        report_gone(dropped)
        return others

    def without_ended(self, given: Iterable[Output], dropped: list[Output]) -> list[Output]:
        """Return the outputs whose epochs have not ended; stop counting the others and add them to `dropped`.

        The caller has the lock.
        """
        kept: list[Output] = []
        for output in given:
            if output.has_ended:
                self.let_go(output)
                dropped.append(output)
            else:
                kept.append(output)
        return kept

    def close(self) -> None:
        """Take no more outputs, and wake workers that wait for room."""
        with self.lock:
            self.is_closed = True
            self.note_room()


def report_gone(dropped: Sequence[Output]) -> None:
    """Tell the sources of dropped outputs, without the lock."""
    for source in {id(one.source): one.source for one in dropped}.values():
        if isinstance(source, Source):
            source.gone()
