"""The mirror's thread: writes what the broker has acknowledged, and who owns what, into a store.

`assigned`, `acknowledged` and `ended` come from the poll thread and only note something down; `lookup` is
the one call that waits for the store, for a bounded time, and only at an assignment. What waits to be
written is one entry a partition, so an outage costs neither memory nor consumption. Nothing but this thread,
and those that it starts to do the same for many blobs, touches the store.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ehkafka.checkpoints.checkpoint import MirrorState
from ehkafka.checkpoints.mirror.book import MirrorBook
from ehkafka.checkpoints.mirror.outage import Outage
from ehkafka.checkpoints.mirror.owners import OwnerBook
from ehkafka.checkpoints.mirror.work import Lookup, MirrorWork
from ehkafka.checkpoints.stores.store import StoreError
from ehkafka.errors import describe
from ehkafka.events.mirror import MirrorBehind, MirrorRecovered, MirrorUnavailable
from ehkafka.wording import counted, ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.checkpoints.layout import Layout
    from ehkafka.checkpoints.mirror.foreign import Foreign
    from ehkafka.checkpoints.stores.store import CheckpointStore
    from ehkafka.events import Event
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition

# A mirror that is behind for longer is a problem that health names; a store's short outage is none.
BEHIND_S = 60.0
_FOREIGN = "their blobs are another program's or another group's, and ehkafka leaves them unchanged"


class Mirror:
    """The mirror of one run. `start` once, then `stop` once."""

    def __init__(
        self,
        store: CheckpointStore,
        layout: Layout,
        *,
        owner: str,
        interval_s: float,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._emit = emit
        self._clock = clock
        self._changed = threading.Condition()
        # Under the lock: both books, the look-ups that wait, the deadline of the stop.
        self._book = MirrorBook(owner, interval_s, layout.group)
        self._owners = OwnerBook(owner, layout.group)
        self._lookups: list[Lookup] = []
        self._stop_by_s: float | None = None
        self._work = MirrorWork(
            store, layout, self._book, self._owners, lock=self._changed, emit=emit, clock=clock
        )
        # Written by the mirror's thread, read by any.
        self._outage = Outage()
        # The store has been there in this run: what it refuses from now on is an outage, no wrong setting.
        self.has_answered = False
        self._thread = threading.Thread(target=self._run, name="ehkafka-mirror", daemon=True)

    # --- the poll thread -----------------------------------------------------------------------------

    def assigned(
        self,
        partition: TopicPartition,
        epoch: int,
        committed: int | None = None,
        *,
        is_ours: bool | None = True,
    ) -> None:
        """A partition is ours from now on; the group has `committed` it so far, None if not at all.

        `is_ours`: whether an app of ours has, by the commit's metadata; None: nothing does.
        """
        with self._changed:
            self._book.assigned(partition, epoch, committed, is_ours=is_ours)
            self._owners.assigned(partition, epoch)
            self._changed.notify()

    def acknowledged(self, stored: Mapping[TopicPartition, Position], requested_s: float) -> None:
        """The broker has stored this in answer to a commit sent at `requested_s`."""
        now_s = self._clock()
        with self._changed:
            for partition, position in stored.items():
                self._book.acknowledged(partition, position, requested_s, now_s)
            self._changed.notify()

    def ended(self, partition: TopicPartition, epoch: int) -> None:
        """A partition is not ours any more; what was acknowledged is still written."""
        with self._changed:
            self._book.ended(partition, epoch, self._clock())
            self._owners.ended(partition, epoch)
            self._changed.notify()

    def ask(self, partitions: Sequence[TopicPartition]) -> Lookup:
        """Ask what the mirror has of these partitions, in this order. The answers come by themselves."""
        wanted = Lookup(partitions)
        with self._changed:
            self._lookups.append(wanted)
            self._changed.notify()
        return wanted

    def lookup(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Checkpoint | Foreign | None]:
        """Return what of that could be read within the time, and before an error."""
        wanted = self.ask(partitions)
        if not wanted.done.wait(timeout_s):
            wanted.is_given_up = True
        return dict(wanted.found)

    # --- any thread ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; the store is first asked when there is something to do."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is owed within the time, tell what was not, and end the thread."""
        if not self._thread.ident:
            return
        with self._changed:
            self._stop_by_s = self._clock() + timeout_s
            before = self._work.answers
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            behind, foreign = sorted(self._book.behind()), self._book.foreign()
        text = self._why_behind(timeout_s, is_slow=self._work.answers > before)
        reasons = {partition: _FOREIGN if partition in foreign else text for partition in behind}
        for reason in dict.fromkeys(reasons.values()):
            self._emit(MirrorBehind(tuple(p for p in behind if reasons[p] == reason), reason))

    def _why_behind(self, timeout_s: float, *, is_slow: bool) -> str:
        if self._outage.error is not None:
            return self._outage.error
        if is_slow:
            return f"{seconds(timeout_s)} were too short to write the whole mirror"
        if self._thread.is_alive():
            return f"a request to the store was not answered within {seconds(timeout_s)}"
        return "another process writes the same mirror"

    def metadata_returned(self, is_returned: bool) -> None:
        """Take whether the service returns what commits say: later starts find it in the blobs."""
        with self._changed:
            self._book.learned(self._clock(), is_returned=is_returned)
            self._changed.notify()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the mirror's."""
        return thread is self._thread

    def state(self) -> MirrorState:
        """Return how far behind the mirror is, and why."""
        with self._changed:
            behind, behind_s = len(self._book.behind()), self._book.behind_s(self._clock())
        return MirrorState(self._store.name, behind, behind_s, self._outage.error)

    @property
    def is_down(self) -> bool:
        """Whether the store did not answer the last time."""
        return self._outage.error is not None

    @property
    def problem(self) -> str | None:
        """Why partitions have no mirror, or one that has been behind for too long; None while all have."""
        state = self.state()
        is_behind = state.behind_s >= max(BEHIND_S, 3 * self._book.interval_s)
        with self._changed:
            foreign = self._book.foreign()
        if foreign and not (is_behind and state.error):
            partition, (blob, reason, _) = min(foreign.items())
            more = f" and {counted(len(foreign) - 1, 'more partition')} have" if len(foreign) > 1 else " has"
            return (
                f"{partition}{more} no mirror: {self._store.name}/{blob} {ended(reason)} ehkafka leaves "
                "this blob unchanged. Give the mirror a container of its own, or delete the blob."
            )
        if not is_behind:
            return None
        return (
            f"The mirror in {state.store} has been behind the commits of "
            f"{counted(state.behind_partitions, 'partition')} for {state.behind_s:.0f} s: "
            f"{state.error or 'another process writes the same mirror'}"
        )

    # --- the mirror's thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._wait():
                self._turn()
            self._leave()
        finally:
            self._store.close()

    def _wait(self) -> bool:
        """Wait for something to do; False: it is time to leave."""
        with self._changed:
            while self._stop_by_s is None and not self._lookups:
                wait_s = self._idle_s()
                if wait_s is not None and wait_s <= 0.0:
                    break
                self._changed.wait(wait_s)
            return self._stop_by_s is None

    def _idle_s(self) -> float | None:
        due = [s for s in (self._book.next_due_s(), self._owners.next_due_s()) if s is not None]
        return max(min(due), self._outage.not_before_s) - self._clock() if due else None

    def _turn(self) -> None:
        self._answer_lookups()
        now_s = self._clock()
        if now_s < self._outage.not_before_s:
            return
        # Who looks something up waits for no more than one blob.
        self._guarded(lambda: self._work.do(is_wanted=lambda: bool(self._lookups)))
        with self._changed:
            self._book.forget_ended(now_s)

    def _leave(self) -> None:
        """Write what is owed, whatever the interval says; a failure, the deadline or a vain pass ends it."""
        self._answer_lookups()
        until_s = self._stop_by_s
        assert until_s is not None
        before = -1
        while self._clock() < until_s and self._guarded(lambda: self._work.do(until_s=until_s)):
            with self._changed:
                left = self._count_due()
            if left in (0, before):
                break
            before = left

    def _count_due(self) -> int:
        now_s, book = self._clock(), self._book
        blobs = len(book.to_read(now_s)) + len(book.to_write(now_s, hurry=True))
        return blobs + len(self._owners.due(now_s))

    def _guarded(self, work: Callable[[], bool]) -> bool:
        """Work; False after a failure, which is reported when it is the first one."""
        try:
            has_worked = work()
        except BaseException as error:
            # A store raises StoreErrors alone; a user's own may have a defect, and the
            # SystemExit of a credential's callable would end this thread without a word.
            text = str(error) if isinstance(error, StoreError) else describe(error)
            if self._outage.failed(text, self._clock()):
                self._emit(MirrorUnavailable(self._store.name, text))
            return False
        self.has_answered = self.has_answered or has_worked
        attempts = self._outage.failed_attempts
        outage_s = self._outage.worked(self._clock()) if has_worked else None
        if outage_s is not None:
            self._emit(MirrorRecovered(self._store.name, outage_s, attempts))
        return True

    def _answer_lookups(self) -> None:
        with self._changed:
            waiting, self._lookups = self._lookups, []
        for lookup in waiting:
            try:
                self._work.answer(lookup)
            except StoreError as error:
                lookup.error = error
            except BaseException as error:
                lookup.error = StoreError(
                    f"{self._store.name}: {ended(describe(error))} Please report this error."
                )
            self.has_answered = self.has_answered or bool(lookup.found)
            if lookup.error is None:
                self._outage.not_before_s = self._clock()  # the store answers: what waits is written now
            lookup.done.set()
