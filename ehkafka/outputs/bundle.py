"""A bundle: outputs that came one after another, each with a key and the only one of its record's call.

Nearly all are such, and there is no object for each. The book makes a bundle of what its workers have added;
the sender divides it into batches, one for each partition (see `batch`). What may not go in a batch, since
its partition is not known yet or its key waits for a refused output, becomes single outputs.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.outputs.claim import SingleOutput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.outlet import Outlet


class Columns(NamedTuple):
    """What a bundle is made of: in each an entry for each output."""

    epochs: Sequence[Epoch]
    messages: Sequence[Any]
    keys: Sequence[bytes]
    values: Sequence[bytes]
    headers: Sequence[Any]
    # Where each stands in the order of all outputs.
    serials: Sequence[int]

    @classmethod
    def of(cls, columns: Iterable[Sequence[Any]]) -> Columns:
        """Return them as one."""
        return cls(*columns)

    def at(self, places: list[int]) -> Columns:
        """Return some of the outputs."""
        if len(places) == 1:
            return self.of((column[places[0]],) for column in self)
        return self.of(map(itemgetter(*places), self))


class Bundle:
    """Of one outlet, so to one topic; of any number of epochs."""

    __slots__ = ("_lowest", "columns", "outlet", "size")

    # What of a single output is its own.
    claim = None
    group = None

    def __init__(self, outlet: Outlet, columns: Columns) -> None:
        self.outlet = outlet
        self.columns = columns
        self.size = sum(map(len, columns.values)) + sum(map(len, columns.keys))
        # By epoch, once asked for.
        self._lowest: dict[Epoch, int] = {}

    def __len__(self) -> int:
        return len(self.columns.values)

    @property
    def topic(self) -> str:
        """Where all of it goes."""
        return self.outlet.topic

    @property
    def keys(self) -> Sequence[bytes]:
        """Each output's key."""
        return self.columns.keys

    @property
    def epochs(self) -> set[Epoch]:
        """Whose records it has outputs of."""
        return set(self.columns.epochs)

    @property
    def is_dropped(self) -> bool:
        """Tell whether some of it must not be sent any more, since their epoch has ended."""
        return any(epoch.ended for epoch in self.epochs)

    def groups(self) -> Iterator[tuple[object, int]]:
        """Yield each output's group, whose order it keeps, and its serial number."""
        for key, serial in zip(self.columns.keys, self.columns.serials, strict=True):
            yield (self.topic, key), serial

    def messages_of(self, epoch: Epoch) -> list[Any]:
        """Return which records of an epoch it is of. Any thread."""
        pairs = zip(self.columns.epochs, self.columns.messages, strict=True)
        return [message for one, message in pairs if one is epoch]

    def offsets(self, epoch: Epoch) -> list[int]:
        """Return the offsets of the same. Any thread."""
        return [message.offset() for message in self.messages_of(epoch)]

    def lowest(self, epoch: Epoch) -> int:
        """Return the lowest of them, which is asked for with each commit. Any thread."""
        if not self._lowest:
            # In one go: a bundle may be of many epochs. Those of one mostly follow one another.
            epochs, messages = self.columns.epochs, self.columns.messages
            kind: Any = type(messages[0])
            offsets = list(map(kind.offset, messages))
            lowest: dict[Epoch, int] = {}
            start = 0
            for one, same in groupby(epochs):
                stop = start + len(list(same))
                offset = min(offsets[start:stop])
                lowest[one] = min(offset, lowest.get(one, offset))
                start = stop
            self._lowest = lowest
        return self._lowest[epoch]

    def divided(self, partitions: Sequence[int | None]) -> tuple[list[tuple[int, Columns]], list[Any]]:
        """Return what goes to each partition, and as single outputs what has None. No key is in both."""
        first = partitions[0]
        if first is not None and partitions.count(first) == len(partitions):
            return [(first, self.columns)], []
        places: defaultdict[int | None, list[int]] = defaultdict(list)
        for place, partition in enumerate(partitions):
            places[partition].append(place)
        alone = places.pop(None, [])
        parts = [
            (partition, self.columns.at(its)) for partition, its in places.items() if partition is not None
        ]
        return parts, self._singles(self.columns.at(alone)) if alone else []

    def apart(self) -> tuple[list[SingleOutput], list[SingleOutput], list[SingleOutput]]:
        """Take it apart: return what is safe, what the producer has and has not answered, and the rest."""
        return [], [], self._singles(self.columns)

    def _singles(self, columns: Iterable[Sequence[Any]]) -> list[SingleOutput]:
        singles = []
        for epoch, message, key, value, headers, serial in zip(*columns, strict=True):
            size = len(key) + len(value)
            one = SingleOutput(
                self.outlet, epoch, message, self.topic, value, key, headers, size, serial=serial
            )
            singles.append(one)
        return singles


class Apart(NamedTuple):
    """What is left of a bundle that was taken apart, each in its order."""

    bundle: Bundle
    # What the producer has and has not answered, and what it has not been given.
    sent: list[SingleOutput]
    rest: list[SingleOutput]
