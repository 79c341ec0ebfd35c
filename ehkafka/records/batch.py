"""A batch: the records that a batch handler is given at once, and what it says of single ones.

Values, made by a worker for one call of the handler. The handler may say results from threads of its own,
until it returns. Shows no record's content by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import TypeVar

    from ehkafka.records.record import Record

    # For type checkers alone: a default that Python's own knows from 3.13 on.
    Payload = TypeVar("Payload", default=Any)
else:
    from typing import TypeVar

    Payload = TypeVar("Payload")


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler could not handle a record."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Skipped:
    """The handler does not want a record."""

    reason: str


Result = Failed | Skipped


class Batch(Sequence["Record"], Generic[Payload]):
    """Records of many keys. The records of each key are in order, without a gap.

    Made by the app; in tests by `ehkafka.testing.make_batch`.

    When the handler returns, all records are finished, except those for which it called `fail` or `skip`. If
    a record fails, the later records of its key are handled again after it, whatever the handler did with
    them. If the handler raises an error, no record is finished, and `fail` and `skip` have no effect.

    `Batch[Reading]` also decodes the payloads: they are in `batch.values`.
    """

    __slots__ = ("_index", "_late", "_lock", "_made", "_results", "_returned", "_size", "_values")

    def __init__(self, records: Sequence[Record], values: Sequence[Payload] | None = None) -> None:
        self._made: tuple[Record, ...] | None = tuple(records)
        self._size = len(self._made)
        # Makes the records where there are none yet: see `late_batch`.
        self._late: Callable[[], Iterable[Record]] | None = None
        self._values = None if values is None else tuple(values)
        # Where each record stands, by its place in the log. Made when the first result is said.
        self._index: dict[tuple[str, int, int], int] | None = None
        self._results: dict[int, Result] = {}
        self._returned = False
        # Guards the results and the records' making: the handler may do both from several threads, and one
        # result's place is looked up among the records.
        self._lock = threading.RLock()

    @property
    def _records(self) -> tuple[Record, ...]:
        if self._made is None:
            with self._lock:
                if self._late is not None:  # else another thread was first
                    self._made, self._late = tuple(self._late()), None
        assert self._made is not None
        return self._made

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Record]:
        # `Sequence` would ask for one index after another, which costs as much as to make the record.
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        """Return a record, or a tuple of them for a slice."""
        return self._records[index]

    @property
    def values(self) -> tuple[Payload, ...]:
        """The decoded payloads, in the order of the records.

        Raises `TypeError` if the handler names no type for the payloads.
        """
        if self._values is None:
            raise TypeError(
                "batch.values needs the type of the payloads: annotate the parameter as batch: "
                "ehkafka.Batch[Reading], or give batch_handler(value=…) or decoder=…"
            )
        return self._values

    def fail(self, record: Record, error: Exception) -> None:
        """Fail a record: `retry` and `on_failure` decide, as if a handler of one record had raised `error`.

        - `record` (required): a record of this batch without a result. Only this record spends an attempt.
        - `error` (required): the exception. `RetryLater`, `SkipRecord` and `RejectRecord` have the same
          effect as in a handler.

        Raises `TypeError` or `ValueError` for a wrong argument, and `RuntimeError` after the handler has
        returned.
        """
        if not isinstance(error, Exception):
            raise TypeError(f"fail(record, {error!r}): give the exception that the record failed with")
        self._say(record, Failed(error))

    def skip(self, record: Record, reason: str) -> None:
        """Skip a record: the app counts and logs it, and the commit can move past the record.

        - `record` (required): a record of this batch without a result.
        - `reason` (required): a text for the log and the event.

        Raises as `fail` does.
        """
        if not isinstance(reason, str):
            raise TypeError(f"skip(record, {reason!r}): give the reason as text")
        self._say(record, Skipped(reason))

    def _say(self, record: Record, result: Result) -> None:
        with self._lock:
            index = self._place_of(record)
            if self._returned:
                raise RuntimeError(
                    f"{record.where}: the batch handler has returned, so the result of the record cannot "
                    f"change. Give results before the handler returns."
                )
            known = self._results.setdefault(index, result)
        if known is not result:
            raise ValueError(
                f"{record.where} already has the result {_named(known)}: give each record only one result."
            )

    def _place_of(self, record: Record) -> int:
        try:
            name = (record.topic(), record.partition(), record.offset())
        except (AttributeError, TypeError):
            raise TypeError(
                f"a result needs a record of the batch, not a value of type {type(record).__name__}"
            ) from None
        if self._index is None:
            self._index = {(r.topic(), r.partition(), r.offset()): n for n, r in enumerate(self._records)}
        index = self._index.get(name)
        if index is None:
            raise ValueError(
                f"{name[0]}[{name[1]}]@{name[2]} is not in this batch, so it cannot get a result here"
            )
        return index

    def __repr__(self) -> str:
        # Never a value or a key: a traceback or a log may show the batch.
        first = f", first {self._records[0].where}" if self._size else ""
        failed = sum(isinstance(result, Failed) for result in tuple(self._results.values()))
        skipped = len(self._results) - failed
        return f"<Batch of {len(self)} records{first}, {failed} failed, {skipped} skipped>"


def late_batch(size: int, make: Callable[[], Iterable[Record]]) -> Batch[Any]:
    """Return a batch of so many records, which `make` makes once a handler reads one of them.

    For handlers that look at none, or at the payloads alone: to make them costs as much as to receive them.
    """
    batch: Batch[Any] = Batch(())
    batch._made, batch._late, batch._size = None, make, size  # noqa: SLF001 - the engine's side, as below
    return batch


def results_of(batch: Batch) -> Mapping[int, Result]:
    """Return what the handler said, by index, and refuse anything further. Called once it has returned."""
    with batch._lock:  # noqa: SLF001 - the engine's side of the class, kept off the users' surface
        batch._returned = True  # noqa: SLF001
        return dict(batch._results)  # noqa: SLF001


def failures_so_far(batch: Batch) -> list[tuple[Record, Exception]]:
    """Return what the handler said has failed, in no order. For middleware, which sees the batch before."""
    with batch._lock:  # noqa: SLF001 - likewise
        results = list(batch._results.items())  # noqa: SLF001
    return [(batch[index], result.error) for index, result in results if isinstance(result, Failed)]


def _named(result: Result) -> str:
    return "failed" if isinstance(result, Failed) else "skipped"
