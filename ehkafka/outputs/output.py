"""One output, and the record that it belongs to. Values only.

Outputs that are put and not acknowledged are kept in flat lists, with `PARTS` entries for each. There may be
50,000 of them, and each object that Python's garbage collector follows makes the collector run earlier.
"""

from __future__ import annotations

from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

from confluent_kafka import KafkaError

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry

    # Takes the seconds until the next try; infinity: not before the next start; None: the output is not
    # needed any more.
    Answer = Callable[[float | None], None]

PARTS: Final = 7
SOURCE: Final = 1
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE})
_INVALID: Final = frozenset({KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, ClientCode.INVALID_ARG})


class OutputOrigin(Protocol):
    """The maker of an output: a handler's outlet, its topic for dead letters, or a redrive."""

    def judge(self, output: Output, error: OutputRefusedError, tries: int, answer: Answer, /) -> None:
        """Decide on an output that the broker refuses. Returns at once; `answer` is called on any thread."""


class OutputRefusedError(Exception):
    """The broker or the client refused an output. `code` is Kafka's number; None: it cannot be encoded."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code

    @property
    def is_too_large(self) -> bool:
        """Tell whether the broker might accept a smaller one."""
        return self.code in _TOO_LARGE

    @property
    def is_for_good(self) -> bool:
        """Tell whether no other try can succeed."""
        return self.code is None or self.code in _INVALID


class Source:
    """Has methods that follow its outputs.

    They are called without a lock, on the sender's thread or on the thread that ends an epoch.
    """

    __slots__ = ()
    # True: its outputs to one partition keep their order, whatever their keys are.
    orders_partition = False
    # True: a refused output ends all later ones of the source, and `refused` is called in place of a judge.
    takes_refusals = False

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that its outputs belong to."""
        return ()

    def has_ended(self) -> bool:
        """Tell whether its outputs must not be sent any more."""
        raise NotImplementedError

    def acknowledged(self, written: object = None) -> None:
        """Take note: one of its outputs is acknowledged, by the report `written` if each has one."""

    def refused(self, error: OutputRefusedError) -> None:
        """Take note: one of its outputs is refused, and neither that one nor its later ones are sent."""

    def gone(self) -> None:
        """Take note: its epoch has ended, and its outputs are not sent any more."""


class EntrySource(Source, tuple[Any, ...]):  # noqa: SLOT001 - a tuple has none that are not empty
    """An entry of a lane, with the same places, that follows its outputs."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that its outputs belong to."""
        return (self,)  # it has the places of an entry

    def has_ended(self) -> bool:
        """Tell whether the epochs of all its records have ended."""
        ended: bool = self[EPOCH].ended
        return ended


class BatchSource(EntrySource):
    """The records of a batch, for an output that belongs to all of them."""

    def __new__(cls, entries: Sequence[Entry]) -> Self:
        """Have the places of the first entry; `entries` has all of them."""
        source = super().__new__(cls, entries[0])
        source._entries = entries
        return source

    _entries: Sequence[Entry]

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that its outputs belong to."""
        return self._entries

    def has_ended(self) -> bool:
        """Tell whether the epochs of all its records have ended."""
        return all(entry[EPOCH].ended for entry in self._entries)


class Output(NamedTuple):
    """One output by itself."""

    origin: OutputOrigin
    source: Entry | Source
    topic: str
    value: bytes | None
    key: bytes | None
    headers: Any
    # -1: the key decides.
    partition: int

    @property
    def group(self) -> tuple[str, bytes | None, int] | None:
        """Outputs of one group are sent in the order in which they were put. None: it has no order."""
        key = self._ordered_key
        return None if key is None and self.partition < 0 else (self.topic, key, self.partition)

    @property
    def place(self) -> object:
        """The key, or the key and partition, by which `KnownKeys` looks for earlier outputs."""
        return self.key if self.partition < 0 else (self._ordered_key, self.partition)

    @property
    def _ordered_key(self) -> bytes | None:
        source = self.source
        return None if isinstance(source, Source) and source.orders_partition else self.key

    @property
    def size(self) -> int:
        """The bytes of its value, key and headers, approximately."""
        parts = self.value, self.key, *chain.from_iterable(self.headers or ())
        return sum(map(len, filter(None, parts)))

    @property
    def entries(self) -> Sequence[Entry]:
        """The records that it belongs to."""
        return entries_of(self.source)

    @property
    def has_ended(self) -> bool:
        """Tell whether the epochs of all its records have ended: then it must not be sent."""
        return has_ended(self.source)


def outputs_of(flat: Iterable[object]) -> Iterator[Output]:
    """Yield the outputs of a flat list."""
    parts = iter(flat)
    return starmap(Output, zip(*[parts] * PARTS, strict=True))


def entries_of(source: Entry | Source) -> Sequence[Entry]:
    """Return the records that an output belongs to."""
    return (source,) if type(source) is tuple else source.entries  # type: ignore[union-attr]


def has_ended(source: Entry | Source) -> bool:
    """Tell whether the epochs of all records of an output have ended."""
    if type(source) is tuple:
        return source[EPOCH].ended
    return source.has_ended()  # type: ignore[union-attr]


def places_of(sources: Iterable[Entry | Source]) -> Iterator[tuple[Epoch, int]]:
    """Yield the epoch and the offset of each record."""
    for source in sources:
        if type(source) is tuple:
            yield source[EPOCH], source[MESSAGE].offset()
        else:
            for entry in source.entries:  # type: ignore[union-attr]
                yield entry[EPOCH], entry[MESSAGE].offset()


def size_of(flat: Sequence[Any]) -> int:
    """Return how many bytes the values and keys of a flat list have."""
    return sum(map(len, filter(None, chain(flat[3::PARTS], flat[4::PARTS]))))
