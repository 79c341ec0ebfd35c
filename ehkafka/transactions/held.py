"""The outputs that are in no committed transaction, as transactions take and return them.

What the one under way has is `Unacknowledged.sent`; what waits for its cover, or for a decision, is `parked`,
and first in it what an aborted transaction had: of each key it has what was put first. On the transactions'
thread, but for what the poll thread asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.outputs.output import PARTS, SOURCE, Output, outputs_of, places_of
from ehkafka.outputs.unacknowledged import report_gone
from ehkafka.transactions.refusals import Refusals
from ehkafka.transactions.search import Suspect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.transactions.coverage import Coverage
    from ehkafka.transactions.handing import Handing
    from ehkafka.transactions.search import Search


class HeldOutputs:
    """One run's."""

    def __init__(self, outputs: Unacknowledged, search: Search, clock: Callable[[], float]) -> None:
        self._outputs = outputs
        self.search = search
        self.refusals = Refusals(clock)
        # Epochs that have ended since the transaction under way has outputs of theirs. Under the lock.
        self._over: set[Epoch] = set()
        # What was taken has an output that must not be sent now.
        self.has_undecided = False

    # -- the poll thread -------------------------------------------------------------------------------

    def end(self, epochs: Sequence[Epoch]) -> None:
        """Drop what is left of epochs that have ended, after their last commit."""
        self.refusals.end(set(epochs))
        with self._outputs.lock:
            if self._outputs.sent:
                self._over.update(epochs)
        self._outputs.end()

    # -- the transactions' thread ----------------------------------------------------------------------

    @property
    def sent(self) -> list[Any]:
        """What the transaction under way has, flat."""
        return self._outputs.sent

    def take(self, coverage: Coverage) -> int:
        """Take what a commit covers, in its order; return how many outputs that are."""
        self._take(coverage)
        # What is decided at once leaves, and a dead letter comes for it.
        while self.search.knows_any and self._refuse_alike():
            self._take(coverage)
        self._check_suspects()
        return len(self.sent) // PARTS

    def _take(self, coverage: Coverage) -> None:
        outputs = self._outputs
        with outputs.lock:
            waiting = [*outputs.sent, *outputs.parked, *outputs.take(len(outputs.added))]
            outputs.sent, outputs.parked = coverage.divide(waiting)
            if _has_suspects(outputs.sent):
                dropped, outputs.sent = _dropped(outputs.sent)
                outputs.let_go(dropped)
            outputs.note_room()

    def _refuse_alike(self) -> bool:
        """Refuse what is like an output that was refused; tell whether anything was."""
        found = [
            (place, error)
            for place, output in enumerate(outputs_of(self.sent))
            if (error := self.search.error_alike(output)) is not None
        ]
        for place, error in found:
            self.refusals.add(self._suspect(place), error)
        return bool(found)

    def _check_suspects(self) -> None:
        """See what is not decided, and what goes alone since it was refused before."""
        self.has_undecided = False
        if not _has_suspects(self.sent):
            return
        for source in self.sent[SOURCE::PARTS]:
            if type(source) is not Suspect:
                continue
            if self.refusals.waits(source):
                self.has_undecided = True
            elif source.tries:
                self.search.try_alone(source)

    def parts(self) -> list[tuple[int, list[int]]]:
        """Return the parts in which the transaction's outputs are sent."""
        return self.search.parts(list(outputs_of(self.sent)))

    def committed(self) -> None:
        """Let go of what was taken."""
        outputs, sent = self._outputs, self.sent
        if self.search.is_on:
            self.search.passed(list(outputs_of(sent)))
        with outputs.lock:
            outputs.sent = []
            self._over.clear()
            outputs.let_go(sent)
        for source in sent[SOURCE::PARTS]:
            if type(source) is not tuple:
                source.acknowledged()

    def take_back(self, handing: Handing | None) -> bool:
        """Put what was taken before all that waits. `handing` is what has sent it, if anything has.

        True: some of it is refused, and the next transaction of the same positions finds out more.
        """
        outputs = self._outputs
        has_found = handing is not None and self._note_refused(handing)
        gone: list[Output] = []
        with outputs.lock:
            kept = outputs.sent
            if self._over:
                kept = []
                for output in outputs_of(outputs.sent):
                    if all(epoch in self._over for epoch, _ in places_of([output.source])):
                        outputs.let_go(output)
                        gone.append(output)
                    else:
                        kept += output
            outputs.sent, outputs.parked = [], [*kept, *outputs.parked]
            self._over.clear()
            outputs.note_room()
        report_gone(gone)
        return has_found

    def _note_refused(self, handing: Handing) -> bool:
        if handing.refused is not None:
            place, error = handing.refused
            self.refusals.add(self._suspect(place), error)
            return True
        places = handing.named_places()
        if not places:
            return False
        named = [self._suspect(place) for place in places]
        errors = [handing.named[output.topic, output.value, output.key] for output in named]
        error = next((one for one in errors if one.is_too_large), errors[0])
        is_alone = handing.part_size == 1
        if self.search.failed(handing.number, named, error, is_alone=is_alone):
            self.refusals.add(named[0], error)
        return True

    def _suspect(self, place: int) -> Output:
        """Return an output of the transaction, by a source of its own from now on."""
        sent, at = self.sent, place * PARTS
        if type(sent[at + SOURCE]) is not Suspect:
            sent[at + SOURCE] = Suspect(sent[at + SOURCE])
        return Output(*sent[at : at + PARTS])


def _has_suspects(flat: list[Any]) -> bool:
    return Suspect in set(map(type, flat[SOURCE::PARTS]))


def _dropped(flat: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return what is not needed any more, and the rest."""
    dropped: list[Any] = []
    kept: list[Any] = []
    for output in outputs_of(flat):
        is_dropped = type(output.source) is Suspect and output.source.is_dropped
        (dropped if is_dropped else kept).extend(output)
    return dropped, kept
