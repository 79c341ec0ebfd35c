"""Batch handlers: what `App.batch_handler` was given, checked, and how its function is called for a batch.

Values and pure functions, beside `spec` and `call`, which are the same for handlers of one record.
A spec is read when the app starts; `BatchCall` is called by batch workers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ehkafka.errors import ConfigurationError
from ehkafka.events import RecordSkipped
from ehkafka.handlers.call import make_batch_function
from ehkafka.handlers.spec import WORKERS_MAX, HandlerSpec
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Outcome, Record
from ehkafka.records.batch import Batch, Failed, Skipped, late_batch, results_of
from ehkafka.records.deferral import DEFERRED, engines_own
from ehkafka.workers.batches.share import BatchLimits, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.order import KeyReader
    from ehkafka.outputs.claim import Claim
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Message
    from ehkafka.records.batch import Result
    from ehkafka.settings import Settings
    from ehkafka.workers.batches.guest_loop import GuestBatchLoop
    from ehkafka.workers.batches.loop import BatchLoop
    from ehkafka.workers.batches.share import Part

# More than any backlog that is worth its memory.
BATCH_RECORDS_MAX = 1_000_000
# Whoever wants to wait longer for a batch wants another tool.
WAIT_S_MAX = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(HandlerSpec):
    """A handler of batches. `function` is a callable of one `Batch`."""

    batch_records_max: int = 500
    batch_bytes_max: int | None = None
    wait_s_max: float = 1.0

    argument: ClassVar[str] = "batch"

    def __post_init__(self) -> None:
        """Refuse what cannot be run. Raises `ConfigurationError`."""
        HandlerSpec.__post_init__(self)  # `super()` does not work in a dataclass with slots
        where = f"batch handler {self.name!r}"
        if self.is_class:
            raise ConfigurationError(
                f"{where}: it is a class, which gets one instance per partition, but a batch has records of "
                "several: give a function, or an instance with __call__(batch)."
            )
        if self.auto is not None:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}; give a number: a batch grows with what waits, so more "
                "workers make smaller batches, and nothing tells which are better."
            )
        if type(self.workers) is not int or self.workers > WORKERS_MAX:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}; use a number from 1 to {WORKERS_MAX}: each batch has a "
                "thread."
            )
        most = self.batch_records_max
        if not _is_count(most, BATCH_RECORDS_MAX):
            raise ConfigurationError(
                f"{where}: batch_records_max={most!r}; use a number from 1 to {BATCH_RECORDS_MAX}."
            )
        self._check_rest(where)

    def _check_rest(self, where: str) -> None:
        if self.batch_bytes_max is not None and not _is_count(self.batch_bytes_max, math.inf):
            raise ConfigurationError(
                f"{where}: batch_bytes_max={self.batch_bytes_max!r}; "
                "use a number of bytes, 1 or more, or None."
            )
        wait_s = self.wait_s_max
        if (
            isinstance(wait_s, bool)
            or not isinstance(wait_s, int | float)
            or not (math.isfinite(wait_s) and 0 <= wait_s <= WAIT_S_MAX)
        ):
            raise ConfigurationError(
                f"{where}: wait_s_max={wait_s!r}; use a number of seconds from 0 to {WAIT_S_MAX:.0f}."
            )

    def limits(self) -> BatchLimits:
        """Return what bounds its batches."""
        return BatchLimits(
            records_max=self.batch_records_max,
            records_min=self.batch_records_max,
            bytes_max=self.batch_bytes_max,
            wait_s_max=self.wait_s_max,
        )

    def check_backlog(self, settings: Settings) -> None:
        """Refuse batches that the backlog never holds: each would wait its `wait_s_max` in vain."""
        enough = self.batch_records_max
        if enough > settings.backlog_records_max:
            raise ConfigurationError(
                f"batch handler {self.name!r}: a batch waits for {enough} records, but "
                f"backlog_records_max={settings.backlog_records_max} never holds so many. Raise it, or lower "
                "batch_records_max."
            )


def _is_count(value: object, most: float) -> bool:
    return type(value) is int and 1 <= value <= most


class BatchCall:
    """Calls a batch handler for the parts of a batch, and notes in its shares how their records ended.

    Called by any batch worker. A coroutine runs on `loop`.
    """

    def __init__(
        self,
        spec: BatchSpec,
        middleware: Sequence[Any],
        *,
        make_record: type[Record],
        emit: Callable[[Event], None],
        history: History | None,
        keys: KeyReader,
        loop: BatchLoop | GuestBatchLoop | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        self._outlet = outlet
        function = make_batch_function(spec, middleware, outlet)
        self._function = function if loop is None else lambda batch: loop.run(function(batch))
        self._make_record = make_record
        self._decode = None if spec.payload is None else spec.payload.decoder()
        self._emit = emit
        self._history = history
        self._reader = keys

    def _begin(self, batch: Batch[Any], parts: Sequence[Part]) -> Claim | None:
        """Note what the call may send for, where it may send."""
        if self._outlet is None:
            return None
        attempt = max(part.attempt if isinstance(part, Share) else 1 for part in parts)
        return self._outlet.begin_batch(batch, _inputs(parts), attempt)

    def __call__(self, parts: Sequence[Part]) -> Mapping[int, Result]:
        """Call the handler once; return what it said, and what became of payloads that do not fit."""
        fitting: Fitting | None = None
        if self._decode is None:
            batch = late_batch(_size_of(parts), lambda: self._records(parts))
        else:
            # On the batch's own thread, not on the loop of a coroutine.
            fitting = Fitting.of(parts, self._records(parts), self._decode, self._keys_of)
            batch = Batch(fitting.records, fitting.values)
        self._report_started(parts)
        claim = self._begin(batch, parts)
        try:
            if batch:  # with nothing that fits there is nothing to handle
                self._function(batch)
        except BaseException:
            if claim is not None and self._outlet is not None:
                self._outlet.failed(claim)
            raise
        finally:
            results = dict(results_of(batch))
            _refuse_deferrals(batch, results)
        ended = results if fitting is None else fitting.results(results)
        if claim is not None and self._outlet is not None:
            claim.failed_homes = self._given_back(parts, ended)
            self._outlet.returned(claim)
        return ended

    def _given_back(self, parts: Iterable[Part], results: Mapping[int, Result]) -> frozenset[int]:
        """Return the places of those that are passed again: what failed, and the later ones of its keys."""
        failed = {place for place, result in results.items() if isinstance(result, Failed)}
        homes: set[int] = set()
        begin = 0
        for part in parts if failed else ():
            places = range(begin, begin + len(part.messages))
            begin = places.stop
            if failed.isdisjoint(places):
                continue
            is_share = isinstance(part, Share)
            keys = [part.lane.key] * len(places) if is_share else self._keys_of(part)  # type: ignore[union-attr, arg-type]
            unfit: set[Hashable] = set()
            for place, key in zip(places, keys, strict=True):
                if place in failed:
                    unfit.add(key)
                if key in unfit:
                    homes.add(place)
        return frozenset(homes)

    def _records(self, parts: Iterable[Part]) -> list[Record]:
        make_record = self._make_record
        records: list[Record] = []
        for part in parts:
            if isinstance(part, Share) and part.attempt > 1:
                records.append(make_record(part.messages[0], part.attempt))
                records += map(make_record, part.messages[1:])
            else:
                records += map(make_record, part.messages)
        return records

    def note(self, parts: Sequence[Part], results: Mapping[int, Result]) -> None:
        """Note how the records ended, by the results at their places."""
        for part in parts:
            if isinstance(part, Share):
                self._note_share(part, results)
            elif self._history is not None:
                self._report_all_ended(part, self._history)

    def _note_share(self, share: Share, results: Mapping[int, Result]) -> None:
        share.ended_records = len(share.messages)
        skipped: dict[int, Skipped] = {}
        for number, place in enumerate(share.places if results else ()):
            result = results.get(place)
            if isinstance(result, Failed):
                share.ended_records, share.error = number, result.error
                break
            if result is not None:
                skipped[number] = result
                self._report_skipped(share, share.messages[number], result)
        share.skipped_records = len(skipped)
        if self._history is not None:
            self._report_ends(share, skipped, self._history)

    def _report_skipped(self, share: Share, message: Message, result: Skipped) -> None:
        partition = share.lane.assignment.partition
        attempt = share.attempt if message is share.messages[0] else 1
        key = describe_key(share.lane.key)
        self._emit(RecordSkipped(partition, message.offset(), key, attempt, result.reason))

    def _keys_of(self, chunk: Chunk) -> Sequence[Hashable]:
        return self._reader.keys(chunk.messages) if chunk.keys is None else chunk.keys

    # The history knows one record of a key at a time: the first of each key starts with the batch, each
    # further one when the one before it has ended.

    def _report_started(self, parts: Iterable[Part]) -> None:
        if self._history is None:
            return
        for part in parts:
            if isinstance(part, Share):
                self._history.started(*_what(part, 0))
            else:
                for key, messages in self._by_key(part).items():
                    self._history.started(*_what_of(part.assignment, messages[0], key))

    def raised(self, shares: Sequence[Share]) -> None:
        """Hear that the handler has raised: nobody knows for which record."""
        if self._history is not None:
            for share in shares:
                self._history.finished(*_what(share, 0), "failed")

    def _report_all_ended(self, chunk: Chunk, history: History) -> None:
        for key, messages in self._by_key(chunk).items():
            for number, message in enumerate(messages):
                what = _what_of(chunk.assignment, message, key)
                if number:
                    history.started(*what)
                history.finished(*what, Outcome.FINISHED.value)

    def _by_key(self, chunk: Chunk) -> dict[Hashable, list[Message]]:
        found: dict[Hashable, list[Message]] = {}
        for key, message in zip(self._keys_of(chunk), chunk.messages, strict=True):
            found.setdefault(key, []).append(message)
        return found

    @staticmethod
    def _report_ends(share: Share, skipped: Container[int], history: History) -> None:
        for number in range(share.ended_records + (share.error is not None)):
            end = Outcome.SKIPPED if number in skipped else Outcome.FINISHED
            if number:
                history.started(*_what(share, number))
            history.finished(*_what(share, number), end.value if number < share.ended_records else "failed")


def _size_of(parts: Iterable[Part]) -> int:
    return sum(len(part.messages) for part in parts)


def _inputs(parts: Iterable[Part]) -> list[tuple[Assignment, Message]]:
    return [
        (part.lane.assignment if isinstance(part, Share) else part.assignment, message)
        for part in parts
        for message in part.messages
    ]


@dataclass(frozen=True, slots=True)
class Fitting:
    """The records of a batch whose payloads fit, and what the others failed with.

    A record that does not fit takes the later ones of its key out of the batch, as `batch.fail` does.
    """

    records: list[Record]
    values: list[Any]
    # Where each of them stands among all records of the parts.
    places: list[int]
    # What the others failed with, by their places.
    failed: dict[int, Failed]

    @classmethod
    def of(
        cls,
        parts: Iterable[Part],
        records: Sequence[Record],
        decode: Callable[[Any], Any],
        keys_of: Callable[[Chunk], Sequence[Hashable]],
    ) -> Fitting:
        """Decode what the parts hold; `keys_of` is asked where one of a chunk does not fit."""
        fitting = cls([], [], [], {})
        begin = 0
        for part in parts:
            places = range(begin, begin + len(part.messages))
            keys: Sequence[Hashable] = ()
            unfit: set[Hashable] = set()
            for place in places:
                if unfit and keys[place - begin] in unfit:
                    continue
                try:
                    value = decode(records[place])
                except MemoryError:
                    raise
                except Exception as error:  # the record's own: `Failures` decides
                    fitting.failed[place] = Failed(error)
                    keys = keys or (
                        [part.lane.key] * len(places) if isinstance(part, Share) else keys_of(part)
                    )
                    unfit.add(keys[place - begin])
                    continue
                fitting.records.append(records[place])
                fitting.values.append(value)
                fitting.places.append(place)
            begin = places.stop
        return fitting

    def results(self, reported: Mapping[int, Result]) -> dict[int, Result]:
        """Return the results of all records by their places; `reported` are those of the handler."""
        return {**{self.places[index]: result for index, result in reported.items()}, **self.failed}


def _what(share: Share, number: int) -> tuple[Any, int, int, Any, int]:
    attempt = 1 if number else share.attempt
    return _what_of(share.lane.assignment, share.messages[number], share.lane.key, attempt)


def _what_of(
    assignment: Assignment, message: Message, key: Hashable, attempt: int = 1
) -> tuple[Any, int, int, Any, int]:
    return assignment.partition, assignment.epoch, message.offset(), users_key(key), attempt


def _refuse_deferrals(batch: Batch, results: dict[int, Result]) -> None:
    """Let records that were deferred fail: their batch has ended, and nobody would wait for the answer."""
    if not DEFERRED:
        return
    for index, record in enumerate(batch):
        token = DEFERRED.pop(id(engines_own(record)), None)
        if token is not None:
            token.close("void")
            text = f"{record.where}: a record of a batch cannot be deferred; finish it before you return"
            results[index] = Failed(RuntimeError(text))
