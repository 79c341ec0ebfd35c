"""The book of an app that sends exactly once: outputs wait here until a transaction has them.

Workers add as to any book, and never wait for room: one that waited could be the one whose record holds all
the others back. The intake waits instead (`is_over_bound`). The transactions' thread takes what a commit
covers, and returns it where the transaction is aborted; the poll thread ends epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ehkafka.outputs.book import OUTPUT_BYTES_MAX, OUTPUTS_MAX, OutputBook
from ehkafka.outputs.bundle import Bundle, Columns
from ehkafka.outputs.claim import SingleOutput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.claim import Claim, Output
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.transactions.coverage import Coverage
    from ehkafka.transactions.letters import LetterOutput

    Held: TypeAlias = Bundle | Output | LetterOutput


class TransactionBook(OutputBook):
    """Keeps each output until its record is committed with it."""

    def __init__(self, outputs_max: int = OUTPUTS_MAX, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        super().__init__(outputs_max, bytes_max)
        # All under the lock, in the order of their making, but that what an aborted transaction had stands
        # first: of each key it has what was made first.
        self._held: list[Held] = []
        # What the transaction under way has, and whose epochs have ended meanwhile.
        self._taken: list[Held] = []
        self._ended: set[Epoch] = set()

    def has_room(self) -> bool:
        """Always: a worker that waits could hold back what makes room."""
        return True

    def is_over_bound(self) -> bool:
        """Tell whether there is so much that nothing more should be received. Any thread."""
        return self.count() >= self._outputs_max or self._bytes >= self._bytes_max

    def add(self, claim: Claim, outputs: Sequence[Output], *, waits: bool = True) -> None:  # noqa: ARG002
        """Take outputs, together and in this order. On their worker.

        Raises `NotSentError` where the epoch of an input has ended, `RuntimeError` for an output of a whole
        batch: its records need not be committed together.
        """
        if self.is_closed or claim.has_ended:
            raise self._not_sent(claim.where)
        if claim.batch is not None and any(output.home is None for output in outputs):
            raise RuntimeError(
                f"{claim.where}: an output of a whole batch cannot be sent exactly once, since its records "
                "may be committed one by one: send what belongs to a record by record.send(…), or leave "
                "exactly_once out"
            )
        claim.posted += len(outputs)
        self.added.extend([part for output in outputs for part in self._parts(output)])

    def add_single(self, output: SingleOutput, *, waits: bool = True) -> None:  # noqa: ARG002
        """Do the same for the one output of a call."""
        if self.is_closed or output.epoch.ended:
            raise self._not_sent(output.where)
        self.added.extend(self._parts(output))

    def add_letter(self, letter: LetterOutput) -> None:
        """Take a dead letter, which is of its record like any output. Never blocks."""
        self.added.extend(self._parts(letter))

    def _sort_in_output(self, output: Any) -> None:
        self._bytes += output.size
        self._held.append(output)

    def _sort_in_bundle(self, outlet: Outlet, columns: list[Any]) -> None:
        bundle = Bundle(outlet, Columns.of((*columns, range(len(columns[0])))))
        self._bytes += bundle.size
        self._held.append(bundle)

    def take(self, coverage: Coverage) -> list[Held]:
        """Return what a commit covers, in its order; what nobody needs any more is let go of.

        Until `committed` or `aborted` is called nothing else is taken.
        """
        taken: list[Held] = []
        rest: list[Held] = []
        with self._lock:
            self._sort_in()
            for one in self._held:
                if isinstance(one, Bundle):
                    _divide(one, coverage, taken, rest)
                elif one.is_dropped or is_void(one):
                    self._let_go([one])  # type: ignore[list-item]
                else:
                    (taken if _is_covered(one, coverage) else rest).append(one)
            self._held, self._taken = rest, taken
        return taken

    def committed(self) -> None:
        """Let go of what was taken."""
        with self._lock:
            self._release(self._taken)
            self._taken = []
            self._ended.clear()

    def aborted(self, apart: Sequence[Held] | None = None) -> None:
        """Take back what was taken, before all that is held; `apart` is the same, taken apart."""
        with self._lock:
            back = self._taken if apart is None else list(apart)
            self._held = [*self._without(back, self._ended), *self._held]
            self._taken = []
            self._ended.clear()

    def end(self, epochs: Iterable[Epoch]) -> bool:
        """Drop what is left of epochs that have ended, after their last commit. Poll thread."""
        over = set(epochs)
        with self._lock:
            self._sort_in()
            # Also what workers have added of older ones since.
            over.update(one for each in self._held for one in _epochs(each) if one.ended)
            self._held = self._without(self._held, over)
            if self._taken:
                self._ended |= over
        return False

    def _without(self, held: Iterable[Held], over: set[Epoch]) -> list[Held]:
        """Return what is of no such epoch, and let go of the rest. Caller has the lock."""
        if not over:
            return list(held)
        kept: list[Held] = []
        for one in held:
            if not over.intersection(_epochs(one)):
                kept.append(one)
                continue
            gone: list[Held] = []
            if isinstance(one, Bundle):
                _split(one, [epoch not in over for epoch in one.columns.epochs], kept, gone)
            else:
                gone.append(one)
            self._release(gone)
        return kept

    def _release(self, held: Iterable[Held]) -> None:
        for one in held:
            self._let_go(one if isinstance(one, Bundle) else [one])  # type: ignore[list-item]


def is_void(output: Output | LetterOutput) -> bool:
    """Tell whether an output is of an attempt that has failed: then it was never sent."""
    claim = None if isinstance(output, SingleOutput) else output.claim
    if claim is None:
        return False
    return claim.has_failed or (bool(claim.failed_homes) and output.home in claim.failed_homes)


def place_of(output: Output | LetterOutput) -> tuple[Epoch, int]:
    """Return the epoch and the offset of an output's record."""
    if isinstance(output, SingleOutput):
        return output.epoch, output.message.offset()
    return output.place


def _is_covered(output: Output | LetterOutput, coverage: Coverage) -> bool:
    epoch, offset = place_of(output)
    cover = coverage.of(epoch)
    return cover is not None and cover.has(offset)


def _epochs(one: Held) -> Iterable[Epoch]:
    return one.epochs if isinstance(one, Bundle) else (place_of(one)[0],)


def _divide(bundle: Bundle, coverage: Coverage, taken: list[Held], rest: list[Held]) -> None:
    covers = {epoch: coverage.of(epoch) for epoch in bundle.epochs}
    pairs = zip(bundle.columns.epochs, bundle.columns.messages, strict=True)
    inside = [
        (cover := covers[epoch]) is not None and cover.has(message.offset()) for epoch, message in pairs
    ]
    _split(bundle, inside, taken, rest)


def _split(bundle: Bundle, inside: list[bool], taken: list[Held], rest: list[Held]) -> None:
    """Put a bundle, or what is `inside` of it, to what is taken, and what is not to the rest."""
    if all(inside):
        taken.append(bundle)
    elif not any(inside):
        rest.append(bundle)
    else:
        for to, wanted in ((taken, True), (rest, False)):
            places = [place for place, is_inside in enumerate(inside) if is_inside is wanted]
            to.append(Bundle(bundle.outlet, bundle.columns.at(places)))
