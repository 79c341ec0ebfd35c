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
from ehkafka.records.batch import Batch, Failed, Skipped, results_of
from ehkafka.records.deferral import DEFERRED, engines_own
from ehkafka.workers.batches.plan import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.outputs.claim import Claim
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Message
    from ehkafka.records.batch import Result
    from ehkafka.settings import Settings
    from ehkafka.workers.batches.guest_loop import GuestBatchLoop
    from ehkafka.workers.batches.loop import BatchLoop
    from ehkafka.workers.batches.plan import Share

# More than any backlog that is worth its memory.
BATCH_RECORDS_MAX = 1_000_000
# Whoever wants to wait longer for a batch wants another tool.
WAIT_S_MAX = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(HandlerSpec):
    """A handler of batches. `function` is a callable of one `Batch`."""

    batch_records_max: int = 500
    # How many are enough to go at once; None: as many as `batch_records_max`.
    batch_records_min: int | None = None
    batch_bytes_max: int | None = None
    wait_s_max: float = 1.0
    unique_keys: bool = False

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
        if type(self.workers) is not int or self.workers > WORKERS_MAX:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}; use a number from 1 to {WORKERS_MAX}: each batch has a "
                "thread."
            )
        least, most = self.batch_records_min, self.batch_records_max
        if not _is_count(most, BATCH_RECORDS_MAX):
            raise ConfigurationError(
                f"{where}: batch_records_max={most!r}; use a number from 1 to {BATCH_RECORDS_MAX}."
            )
        if least is not None and not _is_count(least, most):
            raise ConfigurationError(
                f"{where}: batch_records_min={least!r}; use a number from 1 to batch_records_max ({most}), "
                "or None to wait for batch_records_max."
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
        if type(self.unique_keys) is not bool:
            raise ConfigurationError(f"{where}: unique_keys={self.unique_keys!r}; use True or False.")

    def limits(self) -> BatchLimits:
        """Return what bounds its batches."""
        return BatchLimits(
            records_max=self.batch_records_max,
            records_min=self.batch_records_min or self.batch_records_max,
            bytes_max=self.batch_bytes_max,
            wait_s_max=self.wait_s_max,
            unique_keys=self.unique_keys,
        )

    def check_backlog(self, settings: Settings) -> None:
        """Refuse batches that the backlog never holds: each would wait its `wait_s_max` in vain."""
        enough = self.batch_records_min or self.batch_records_max
        if enough > settings.backlog_records_max:
            raise ConfigurationError(
                f"batch handler {self.name!r}: a batch waits for {enough} records, but "
                f"backlog_records_max={settings.backlog_records_max} never holds so many. Raise it, or lower "
                "batch_records_max or batch_records_min."
            )


def _is_count(value: object, most: float) -> bool:
    return type(value) is int and 1 <= value <= most


class BatchCall:
    """Calls a batch handler for the shares of a batch, and notes in each how its records ended.

    Called by any batch worker. Raises what the handler raised; then nothing is noted. A coroutine runs on
    `loop`.
    """

    def __init__(
        self,
        spec: BatchSpec,
        middleware: Sequence[Any],
        *,
        make_record: type[Record],
        emit: Callable[[Event], None],
        history: History | None,
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

    def _begin(self, batch: Batch[Any], shares: list[Share]) -> Claim | None:
        """Note what the call may send for, where it may send."""
        attempt = 1 + max(share.lane.attempts for share in shares)
        return None if self._outlet is None else self._outlet.begin_batch(batch, _inputs(shares), attempt)

    def __call__(self, shares: list[Share]) -> None:
        """Call the handler once."""
        records = self._records(shares)
        # On the batch's own thread, not on the loop of a coroutine.
        fitting = None if self._decode is None else Fitting.of(shares, records, self._decode)
        batch: Batch[Any] = Batch(records) if fitting is None else Batch(fitting.records, fitting.values)
        self._report_started(shares)
        claim = self._begin(batch, shares)
        try:
            if batch:  # with nothing that fits there is nothing to handle
                self._function(batch)
        except BaseException:
            self._report_raised(shares)
            if claim is not None and self._outlet is not None:
                self._outlet.failed(claim)
            raise
        finally:
            results = dict(results_of(batch))
            _refuse_deferrals(batch, results)
        if claim is not None and self._outlet is not None:
            self._outlet.returned(claim)
        self._note(shares, results if fitting is None else fitting.results(results))

    def _records(self, shares: Iterable[Share]) -> list[Record]:
        make_record = self._make_record
        records = []
        for share in shares:
            attempt = share.attempt
            for message in share.messages:
                records.append(make_record(message, attempt))
                attempt = 1
        return records

    def _note(self, shares: Iterable[Share], results: Mapping[int, Result]) -> None:
        index = 0
        for share in shares:
            records = len(share.messages)
            share.ended_records = records
            skipped: dict[int, Skipped] = {}
            for number in range(records) if results else ():
                result = results.get(index + number)
                if isinstance(result, Failed):
                    share.ended_records, share.error = number, result.error
                    break
                if result is not None:
                    skipped[number] = result
                    self._report_skipped(share, share.messages[number], result)
            share.skipped_records = len(skipped)
            index += records
            if self._history is not None:
                self._report_ends(share, skipped, self._history)

    def _report_skipped(self, share: Share, message: Message, result: Skipped) -> None:
        partition = share.lane.assignment.partition
        attempt = share.attempt if message is share.messages[0] else 1
        key = describe_key(share.lane.key)
        self._emit(RecordSkipped(partition, message.offset(), key, attempt, result.reason))

    # The history knows one record of a key at a time: the first of each key starts with the batch, each
    # further one when the one before it has ended.

    def _report_started(self, shares: Iterable[Share]) -> None:
        if self._history is not None:
            for share in shares:
                self._history.started(*_what(share, 0))

    def _report_raised(self, shares: Iterable[Share]) -> None:
        if self._history is not None:
            for share in shares:
                self._history.finished(*_what(share, 0), "failed")

    @staticmethod
    def _report_ends(share: Share, skipped: Container[int], history: History) -> None:
        for number in range(share.ended_records + (share.error is not None)):
            end = Outcome.SKIPPED if number in skipped else Outcome.FINISHED
            if number:
                history.started(*_what(share, number))
            history.finished(*_what(share, number), end.value if number < share.ended_records else "failed")


def _inputs(shares: Iterable[Share]) -> list[tuple[Assignment, Message]]:
    return [(share.lane.assignment, message) for share in shares for message in share.messages]


@dataclass(frozen=True, slots=True)
class Fitting:
    """The records of a batch whose payloads fit, and what the others failed with.

    A record that does not fit takes the later ones of its key out of the batch, as `batch.fail` does.
    """

    records: list[Record]
    values: list[Any]
    # Where each of them stands among all records of the shares.
    places: list[int]
    # What the others failed with, by their places.
    failed: dict[int, Failed]

    @classmethod
    def of(cls, shares: Iterable[Share], records: Sequence[Record], decode: Callable[[Any], Any]) -> Fitting:
        """Decode what the shares hold."""
        fitting = cls([], [], [], {})
        begin = 0
        for share in shares:
            end = begin + len(share.messages)
            for place in range(begin, end):
                try:
                    value = decode(records[place])
                except MemoryError:
                    raise
                except Exception as error:  # the record's own: `Failures` decides
                    fitting.failed[place] = Failed(error)
                    break
                fitting.records.append(records[place])
                fitting.values.append(value)
                fitting.places.append(place)
            begin = end
        return fitting

    def results(self, reported: Mapping[int, Result]) -> dict[int, Result]:
        """Return the results of all records by their places; `reported` are those of the handler."""
        return {**{self.places[index]: result for index, result in reported.items()}, **self.failed}


def _what(share: Share, number: int) -> tuple[Any, int, int, Any, int]:
    assignment, offset = share.lane.assignment, share.messages[number].offset()
    attempt = 1 if number else share.attempt
    return assignment.partition, assignment.epoch, offset, users_key(share.lane.key), attempt


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
