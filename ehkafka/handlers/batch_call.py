"""How a batch handler's function is called for the records of a batch. Called by batch workers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ehkafka.events import RecordSkipped
from ehkafka.handlers.call import handler_of, of_its_kind
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.routing import Router
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Outcome
from ehkafka.records.batch import Batch, Failed, late_batch, results_of
from ehkafka.records.deferral import DEFERRED, engines_own
from ehkafka.recovery.unrun import must_return_nothing
from ehkafka.workers.batches.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.handlers.batch import BatchSpec
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name
    from ehkafka.outputs.claim import Claim
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Record
    from ehkafka.records.batch import Result
    from ehkafka.workers.batches.loop import BatchLoop


class BatchCall:
    """Calls a batch handler, and reports how its records ended. A coroutine runs on `loop`.

    `router` knows the attempts of records that are called again.
    """

    def __init__(
        self,
        spec: BatchSpec,
        middleware: Sequence[Any],
        *,
        router: Router,
        make_record: type[Record],
        emit: Callable[[Event], None],
        history: History | None,
        loop: BatchLoop | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        self._function = handler_of(spec, spec.function, of_its_kind(spec, middleware), outlet)
        self._loop = loop
        self._outlet = outlet
        self._router = router
        self._with_keys = router.unread.with_keys
        self._make_record = make_record
        self._decode = None if spec.payload is None else spec.payload.decoder()
        self._emit = emit
        self._history = history

    def __call__(self, entries: Sequence[Entry]) -> Results | None:
        """Call the handler once; return what became of the records where not all ended well.

        A payload that does not fit counts as a record that failed. Raises what the handler raises.
        """
        if self._history is None:
            return self._run(entries)
        entries = self._with_keys(entries)
        for first, *_ in _by_key(entries):
            self._history.started(*self._what(first))
        try:
            results = self._run(entries)
        except BaseException:  # for whichever record
            for first, *_ in _by_key(entries):
                self._history.finished(*self._what(first), "failed")
            raise
        self._report_ends(entries, results, self._history)
        return results

    def _run(self, entries: Sequence[Entry]) -> Results | None:
        fitting: Fitting | None = None
        if self._decode is None:
            batch = late_batch(len(entries), lambda: self._records(entries))
        else:
            # On the batch's own thread, not on the loop of a coroutine.
            fitting = Fitting.of(entries, self._records(entries), self._decode, self._with_keys)
            batch = Batch(fitting.records, fitting.values)
        with self._claim(batch, entries) as claim:
            try:
                if batch:  # with nothing that fits there is nothing to handle
                    result = self._function(batch)
                    must_return_nothing(result if self._loop is None else self._loop.run(result))
            finally:
                reported = dict(results_of(batch))
                _refuse_deferrals(batch, reported)
            if fitting is not None:
                reported = fitting.results(reported)
            results = Results.of(self._with_keys(entries), reported) if reported else None
            if claim is not None and results is not None:
                claim.failed_homes = results.again
        for entry, reason in results.skipped if results is not None else ():
            where = entry[EPOCH].partition, entry[MESSAGE].offset(), describe_key(entry[KEY])
            self._emit(RecordSkipped(*where, self._number(entry), reason))
        return results

    def _claim(self, batch: Batch[Any], entries: Sequence[Entry]) -> AbstractContextManager[Claim | None]:
        """Return what the call may send for, where it may send."""
        if self._outlet is None:
            return nullcontext()
        inputs = [(entry[EPOCH], entry[MESSAGE]) for entry in entries]
        number = max(map(self._number, entries)) if self._router.attempts else 1
        return self._outlet.begin_batch(batch, inputs, number)

    def _number(self, entry: Entry) -> int:
        known = self._router.attempts.get(id(entry[MESSAGE]))
        return 1 if known is None else known.failed + 1

    def _records(self, entries: Sequence[Entry]) -> list[Record]:
        make_record = self._make_record
        if not self._router.attempts:
            return list(map(make_record, map(itemgetter(MESSAGE), entries)))
        return [make_record(entry[MESSAGE], self._number(entry)) for entry in entries]

    def _report_ends(self, entries: Sequence[Entry], results: Results | None, history: History) -> None:
        # The history knows one record of a key at a time: the first of each key starts with the batch, each
        # further one when the one before it has ended.
        failed = {id(entry[MESSAGE]) for entry, _, _ in results.failed} if results else set()
        skipped = {id(entry[MESSAGE]) for entry, _ in results.skipped} if results else set()
        for of_key in _by_key(entries):
            for place, entry in enumerate(of_key):
                if place:
                    history.started(*self._what(entry))
                if id(entry[MESSAGE]) in failed:
                    history.finished(*self._what(entry), "failed")
                    break
                end = Outcome.SKIPPED if id(entry[MESSAGE]) in skipped else Outcome.FINISHED
                history.finished(*self._what(entry), end.value)

    def _what(self, entry: Entry) -> tuple[Any, int, int, Any, int]:
        message, key, epoch = entry[MESSAGE], entry[KEY], entry[EPOCH]
        return epoch.partition, epoch.number, message.offset(), users_key(key), self._number(entry)


def _by_key(entries: Iterable[Entry]) -> Iterable[list[Entry]]:
    found: dict[Name, list[Entry]] = {}
    for entry in entries:
        found.setdefault(Router.name_of(entry), []).append(entry)
    return found.values()


@dataclass(frozen=True, slots=True)
class Fitting:
    """The records of a batch whose payloads fit, and what the others failed with.

    A record that does not fit takes the later ones of its key out of the batch, as `batch.fail` does.
    """

    records: list[Record]
    values: list[Any]
    # The place of each of them among all records of the batch.
    places: list[int]
    # What the others failed with, by their places.
    failed: dict[int, Result]

    @classmethod
    def of(
        cls,
        entries: Sequence[Entry],
        records: Sequence[Record],
        decode: Callable[[Any], Any],
        with_keys: Callable[[Sequence[Entry]], Sequence[Entry]],
    ) -> Fitting:
        """Decode what the records hold; `with_keys` is asked where one does not fit."""
        fitting = cls([], [], [], {})
        unfit: set[Name] = set()
        for place, record in enumerate(records):
            if unfit and Router.name_of(entries[place]) in unfit:
                continue
            try:
                value = decode(record)
            except MemoryError:
                raise
            except Exception as error:  # the record's own: `Failures` decides
                fitting.failed[place] = Failed(error)
                entries = with_keys(entries)
                unfit.add(Router.name_of(entries[place]))
                continue
            fitting.records.append(record)
            fitting.values.append(value)
            fitting.places.append(place)
        return fitting

    def results(self, reported: Mapping[int, Result]) -> dict[int, Result]:
        """Return the results of all records by their places; `reported` are those of the handler."""
        return {**{self.places[index]: result for index, result in reported.items()}, **self.failed}


def _refuse_deferrals(batch: Batch, results: dict[int, Result]) -> None:
    """Let records that were deferred fail: their batch has ended, and waits for no answer."""
    if not DEFERRED:
        return
    for index, record in enumerate(batch):
        token = DEFERRED.pop(id(engines_own(record)), None)
        if token is not None:
            token.close("void")
            text = f"{record.where}: a record of a batch cannot be deferred; finish it before you return"
            results[index] = Failed(RuntimeError(text))
