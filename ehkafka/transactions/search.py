"""Finds out which outputs the broker refuses: it refuses whole batches, and names all that was in one. Pure.

What was named is *suspected*. The next transaction sends the suspects in parts, and the client's queue is
empty between two of them: the part in which the broker refuses something is cut again, until a part is one
output. Where none is refused alone, the batch itself was too large: the next client makes smaller ones.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from confluent_kafka import KafkaError

from ehkafka.outputs.output import Source, entries_of, has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Output, OutputRefusedError

PARTS_AT_ONCE: Final = 32
BATCH_BYTES_MIN: Final = 16 * 1024
# Below that: each message is a batch.
ONE_BY_ONE: Final = 0
# What one output taught of others counts for so long: topics change.
TAUGHT_S: Final = 60.0
# They are of a topic, whatever is sent to it.
_OF_TOPICS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    }
)


class Suspect(Source):
    """The source of one output that was in a refused batch: by it the same output is found again."""

    def __new__(cls, source: Entry | Source) -> Self:
        """Stand for the source that the output had."""
        suspect = super().__new__(cls, source)
        suspect.source = source
        return suspect

    source: Entry | Source
    # How often it was refused alone, and when it may go again: infinity while that is not decided.
    tries = 0
    may_go_s = float("-inf")
    # It is not needed any more.
    is_dropped = False

    @property
    def is_over(self) -> bool:
        """Tell whether its output is sent no more."""
        return self.is_dropped or has_ended(self)

    # There may be several of one record.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that the output is of."""
        return entries_of(self.source)

    def acknowledged(self) -> None:
        """Tell the source."""
        if isinstance(self.source, Source):
            self.source.acknowledged()

    def takes_back(self, error: OutputRefusedError) -> bool:
        """Ask the source."""
        return isinstance(self.source, Source) and self.source.takes_back(error)

    def gone(self) -> None:
        """Tell the source."""
        if isinstance(self.source, Source):
            self.source.gone()


class Taught(NamedTuple):
    """What one refused output says of others: those of this size or more are refused as well."""

    size: int
    error: OutputRefusedError
    at_s: float


class Search:
    """The suspects, and what was found. One thread's."""

    def __init__(self, batch_bytes: int, *, clock: Callable[[], float], are_sizes_known: bool = True) -> None:
        """`batch_bytes` is what a batch may have at first. Not `are_sizes_known`: batches are compressed."""
        self.batch_bytes = batch_bytes
        self._clock = clock
        self._are_sizes_known = are_sizes_known
        # Each is sent apart, in this order.
        self._cells: list[list[Suspect]] = []
        # Of this search: what batches might have before it, and the least that was refused of several.
        self._bytes_before: int | None = None
        self._least_bytes: int | None = None
        # By topic, and whether it is of outputs without a key alone.
        self._taught: dict[tuple[str, bool], Taught] = {}

    @property
    def is_on(self) -> bool:
        """Tell whether something is to be sent apart."""
        return bool(self._cells)

    # -- before a transaction --------------------------------------------------------------------------

    def try_alone(self, suspect: Suspect) -> None:
        """Send one apart that was refused and may go again."""
        if not any(one is suspect for one in chain.from_iterable(self._cells)):
            self._cells.append([suspect])

    def parts(self, outputs: Sequence[Output]) -> list[tuple[int, list[int]]]:
        """Return what is sent in which order, as places in `outputs`; each part with its number.

        Odd ones are the suspects' cells. What stands between two suspects of its group goes between them,
        and all else before the first part or behind the last one.
        """
        if not self._cells:
            return [(0, [*range(len(outputs))])]
        place_of = {one.source: place for place, one in enumerate(outputs) if type(one.source) is Suspect}
        # As they stand in the outputs: those of a group keep their order.
        self._cells.sort(key=lambda cell: min(place_of.get(one, len(outputs)) for one in cell))
        cell_of = {suspect: 2 * n + 1 for n, cell in enumerate(self._cells) for suspect in cell}
        groups: list[Hashable] = [
            place if output.group is None else output.group for place, output in enumerate(outputs)
        ]
        numbers = [cell_of.get(one.source) if type(one.source) is Suspect else None for one in outputs]
        last = {groups[place]: place for place, number in enumerate(numbers) if number is not None}
        parts: dict[int, list[int]] = {}
        behind = 2 * len(self._cells)
        reached: dict[Hashable, int] = {}
        for place, (group, number) in enumerate(zip(groups, numbers, strict=True)):
            now = reached.get(group, 0)
            if number is not None:
                reached[group] = max(now, number)
            else:
                reached[group] = behind if now and place > last[group] else now + now % 2
            parts.setdefault(reached[group], []).append(place)
        return sorted(parts.items())

    def error_alike(self, output: Output) -> OutputRefusedError | None:
        """Return why an output would be refused, as one like it was since it may go."""
        for is_keyless in (False, True)[: 2 if output.key is None else 1]:
            taught = self._taught.get((output.topic, is_keyless))
            if taught is None or output.size < taught.size or taught.at_s <= self._clock() - TAUGHT_S:
                continue
            if type(output.source) is not Suspect or output.source.may_go_s <= taught.at_s:
                return taught.error
        return None

    @property
    def knows_any(self) -> bool:
        """Tell whether `error_alike` may have an answer."""
        return bool(self._taught)

    # -- after one -------------------------------------------------------------------------------------

    def failed(
        self, number: int, named: Sequence[Output], error: OutputRefusedError, *, is_alone: bool
    ) -> bool:
        """Hear which outputs of a part were in a refused batch; all are `Suspect`s. True: it is refused.

        `is_alone`: the part had nothing else.
        """
        was_on = self.is_on
        # Earlier ones were taken.
        self._cells = self._cells[number // 2 :]
        if number % 2 and self._cells:
            self._cells.pop(0)
        if is_alone:
            self._teach(named[0], error)
            if error.is_too_large:  # it was this one's size, not the batch's
                self.batch_bytes = self._bytes_before or self.batch_bytes
                self._bytes_before = self._least_bytes = None
            return True
        if len(named) > 1 and error.is_too_large:
            size = sum(output.size for output in named)
            self._least_bytes = min(size, self._least_bytes or size)
            if was_on and number % 2 == 0:
                # One more batch, of outputs that were not suspected: perhaps all are too large.
                self._shrink(self._least_bytes)
        step = -(-len(named) // PARTS_AT_ONCE)
        suspects: list[Suspect] = [output.source for output in named]  # type: ignore[misc]
        self._cells[:0] = [suspects[start : start + step] for start in range(0, len(suspects), step)]
        return False

    def passed(self, outputs: Sequence[Output]) -> None:
        """Hear that all of these were taken: none of the suspects among them is refused alone."""
        for output in outputs:
            if type(output.source) is Suspect and output.source.tries:
                self._unteach(output)
        sent = {output.source for output in outputs if type(output.source) is Suspect}
        over = [one for one in chain.from_iterable(self._cells) if one in sent]
        left = [[one for one in cell if not (one in sent or one.is_over)] for cell in self._cells]
        self._cells = [cell for cell in left if cell]
        if self._cells:
            return
        if over and self._least_bytes is not None:
            self._shrink(self._least_bytes)
        self._bytes_before = self._least_bytes = None

    def _shrink(self, refused_bytes: int) -> None:
        self._bytes_before = self._bytes_before or self.batch_bytes
        if self.batch_bytes <= BATCH_BYTES_MIN:
            self.batch_bytes = ONE_BY_ONE
        else:
            self.batch_bytes = max(BATCH_BYTES_MIN, min(refused_bytes, self.batch_bytes) // 2)

    def _teach(self, output: Output, error: OutputRefusedError) -> None:
        if error.is_too_large and self._are_sizes_known:
            self._taught[output.topic, False] = Taught(output.size, error, self._clock())
        elif error.code in _OF_TOPICS:
            self._taught[output.topic, False] = Taught(0, error, self._clock())
        elif error.code == KafkaError.INVALID_RECORD and output.key is None:
            self._taught[output.topic, True] = Taught(0, error, self._clock())

    def _unteach(self, output: Output) -> None:
        """Forget what does not hold any more: an output is taken that was refused before."""
        for place in ((output.topic, False), (output.topic, True)):
            taught = self._taught.get(place)
            if taught is not None and output.size >= taught.size and (output.key is None or not place[1]):
                del self._taught[place]
