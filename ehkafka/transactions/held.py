"""Moves outputs into transactions, and back after an abort.

The transaction under way has `Unacknowledged.sent`. Outputs whose records are not covered yet, or that wait
for a decision, are in `parked`. The outputs of an aborted transaction are put in front of these, because they
are the first ones of their keys. On the transactions' thread, except what the poll thread calls.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from ehkafka.lanes.inbox import EPOCH
from ehkafka.outputs.output import PARTS, SOURCE, Output, outputs_of, places_of
from ehkafka.outputs.unacknowledged import report_gone
from ehkafka.transactions.handing import with_alike
from ehkafka.transactions.refusals import Refusals, RefusedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.output import OutputRefusedError
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.records import TopicPartition
    from ehkafka.transactions.coverage import Coverage

# So many at once: while more are freed in one go no worker runs, and its call looks like a slow one.
SLICE: Final = 500


class HeldOutputs:
    """The outputs of one run."""

    def __init__(
        self, outputs: Unacknowledged, clock: Callable[[], float], *, are_sizes_known: bool = True
    ) -> None:
        """Not `are_sizes_known`: batches are compressed."""
        self._outputs = outputs
        self._are_sizes_known = are_sizes_known
        self.refusals = Refusals(clock)
        # Epochs that have ended, after their last commit. Under the lock.
        self._over: WeakSet[Epoch] = WeakSet()
        # The number of each partition's last one, which stays when nothing of it is left. Under the lock.
        self._over_numbers: dict[TopicPartition, int] = {}
        # An epoch of the positions is over: its outputs are not here any more.
        self.is_too_late = False
        # Places in `sent` of outputs that were refused before; whether some of them must not be sent now.
        self.refused_before: list[int] = []
        self.has_undecided = False

    # -- the poll thread -------------------------------------------------------------------------------

    def end(self, epochs: Sequence[Epoch]) -> None:
        """Drop the outputs of epochs that have ended, after their last commit."""
        self.refusals.end(set(epochs))
        with self._outputs.lock:
            self._over.update(epochs)
            self._over_numbers.update((epoch.partition, epoch.number) for epoch in epochs)
        self._outputs.end()

    # -- the transactions' thread ----------------------------------------------------------------------

    @property
    def sent(self) -> list[Any]:
        """The outputs of the transaction under way, flat."""
        return self._outputs.sent

    def drop_late(self) -> None:
        """Drop outputs that were put as their epoch ended: the worker had checked the epoch before."""
        outputs = self._outputs
        gone: list[Output] = []
        with outputs.lock:
            if self._over:
                waiting = outputs.parked + outputs.take(len(outputs.added))
                outputs.parked = self._without_over(waiting, gone)
        report_gone(gone)

    def take(self, coverage: Coverage) -> int:
        """Take the outputs of the records that a commit covers, in order; return how many."""
        outputs = self._outputs
        with outputs.lock:
            # In this order: a record's dead letter is put before its refused output is dropped.
            if RefusedSource in set(map(type, outputs.parked[SOURCE::PARTS])):
                dropped, outputs.parked = _dropped(outputs.parked)
                outputs.let_go(dropped)
            for _ in range(0, len(outputs.added), SLICE * PARTS):
                outputs.parked += outputs.take(SLICE)
            waiting = outputs.parked
        # Without the lock: it takes long enough for a call that waits for it to look like a slow one.
        divided = coverage.divide(waiting)
        with outputs.lock:
            if outputs.parked is not waiting:  # an epoch has ended meanwhile
                divided = coverage.divide(outputs.parked)
            outputs.sent, outputs.parked = divided
            self.is_too_late = coverage.has_any(self._over_numbers)
            outputs.note_room()
        sources = outputs.sent[SOURCE::PARTS]
        self.refused_before = [place for place, one in enumerate(sources) if type(one) is RefusedSource]
        self.has_undecided = not all(self.refusals.may_go(sources[place]) for place in self.refused_before)
        return len(sources)

    def committed(self) -> None:
        """Remove the outputs of the committed transaction."""
        outputs, sent = self._outputs, self.sent
        with outputs.lock:
            outputs.sent = []
            outputs.let_go(sent)
        for source in sent[SOURCE::PARTS]:
            if type(source) is not tuple:
                source.acknowledged()
        while sent:
            del sent[-SLICE * PARTS :]

    def take_back(self, refused: Mapping[int, OutputRefusedError]) -> None:
        """Put the transaction's outputs in front of `parked`. `refused`: by place, those to be decided."""
        outputs = self._outputs
        if refused and self._are_sizes_known:
            refused = with_alike(list(outputs_of(outputs.sent)), refused)
        for place, error in refused.items():
            self.refusals.add(self._refused(place), error)
        gone: list[Output] = []
        with outputs.lock:
            outputs.sent, outputs.parked = [], [*self._without_over(outputs.sent, gone), *outputs.parked]
            outputs.note_room()
        report_gone(gone)

    def _refused(self, place: int) -> Output:
        """Return an output of the transaction; from now on it has a source of its own."""
        sent, at = self.sent, place * PARTS
        if type(sent[at + SOURCE]) is not RefusedSource:
            sent[at + SOURCE] = RefusedSource(sent[at + SOURCE])
        return Output(*sent[at : at + PARTS])

    def _without_over(self, flat: list[Any], gone: list[Output]) -> list[Any]:
        """Return the outputs whose epochs are not over; add the others to `gone`. The caller has the lock."""
        if self._over.isdisjoint(set(map(itemgetter(EPOCH), flat[SOURCE::PARTS]))):
            return flat
        kept: list[Any] = []
        for output in outputs_of(flat):
            if all(epoch in self._over for epoch, _ in places_of([output.source])):
                self._outputs.let_go(output)
                gone.append(output)
            else:
                kept += output
        return kept


def _dropped(flat: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the outputs that are not needed any more, and the others."""
    dropped: list[Any] = []
    kept: list[Any] = []
    for output in outputs_of(flat):
        is_dropped = type(output.source) is RefusedSource and output.source.is_dropped
        (dropped if is_dropped else kept).extend(output)
    return dropped, kept
