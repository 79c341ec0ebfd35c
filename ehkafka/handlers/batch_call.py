"""How a batch handler's function is called for the records of a batch. Called by batch workers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ehkafka.events import RecordSkipped
from ehkafka.handlers.call import handler_of, of_its_kind
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import KeyFailure, describe_key
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
    from ehkafka.outputs.call import Call
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.records import Record
    from ehkafka.records.batch import Result
    from ehkafka.workers.tasks.shared import SharedLoop


class BatchCall:
    """Calls a batch handler, and reports how its records ended. A coroutine runs on `loop`.

    `router` knows the attempts of records that are called again.
    """

    def __init__(
        self,
        spec: BatchSpec,
        middleware: Sequence[object],
        *,
        router: Router,
        make_record: type[Record],
        emit: Callable[[Event], None],
        history: History | None,
        loop: SharedLoop | None = None,
        outlet: Outlet | None = None,
        keys_fail: bool = False,
    ) -> None:
        """`keys_fail`: a key may be a `KeyFailure`, as the user's code makes them."""
        self._function = handler_of(spec, spec.function, of_its_kind(spec, middleware), outlet)
        self._loop = loop
        self._handler = f"handler {spec.name!r}"
        self._outlet = outlet
        self._keys_fail = keys_fail
        self._router = router
        self._with_keys = router.unread.with_keys
        self._make_record = make_record
        self._decode = None if spec.payload is None else spec.payload.decoder()
        self._emit = emit
        self._history = history

    def __call__(self, entries: Sequence[Entry]) -> Results | None:
        """Call the handler once; return what became of the records where not all ended well.

        A record whose order function raised, or whose payload does not fit, has failed, and the handler gets
        neither that nor the later ones of its key. Raises what the handler raises.
        """
        if self._history is None:
            return self._run(entries)
        entries = self._with_keys(entries)
        for first, *_ in _by_key(entries):
            self._history.started(*self._what(first))
        try:
            results = self._run(entries)
        except BaseException:  # for whichever record
            self._report_ends(entries, {id(entry[MESSAGE]): "failed" for entry in entries}, self._history)
            raise
        ends: dict[int, str] = {}
        if results is not None:
            ends = {id(entry[MESSAGE]): "failed" for entry, _, _ in results.failed}
            ends |= {id(entry[MESSAGE]): Outcome.SKIPPED.value for entry, _ in results.skipped}
        self._report_ends(entries, ends, self._history)
        return results

    def _run(self, entries: Sequence[Entry]) -> Results | None:
        unfit = self._without_key(entries) if self._keys_fail else {}
        # On the batch's own thread, not on the loop of a coroutine.
        records = None if self._decode is None else self._records(entries)
        values = [] if records is None else self._decoded(entries, records, unfit)
        places: Sequence[int] = range(len(entries))
        if unfit:
            out = Results.of(self._with_keys(entries), unfit).again
            places = [place for place in places if place not in out]
        if records is None:
            fitting = entries if not unfit else [entries[place] for place in places]
            batch = late_batch(len(fitting), lambda: self._records(fitting))
        else:
            batch = Batch([records[place] for place in places], [values[place] for place in places])
        with self._call(batch, entries) as call:
            try:
                if batch:  # with nothing that fits there is nothing to handle
                    result = self._function(batch)
                    must_return_nothing(
                        result if self._loop is None else self._loop.run(result, self._handler)
                    )
            finally:
                reported = dict(results_of(batch))
                _refuse_deferrals(batch, reported)
            reported = {places[index]: result for index, result in reported.items()} | unfit
            results = Results.of(self._with_keys(entries), reported) if reported else None
            if call is not None and results is not None:
                call.dropped = results.unsent
        for entry, reason in results.skipped if results is not None else ():
            where = entry[EPOCH].partition, entry[MESSAGE].offset(), describe_key(entry[KEY])
            self._emit(RecordSkipped(*where, self._number(entry), reason))
        return results

    @staticmethod
    def _without_key(entries: Sequence[Entry]) -> dict[int, Result]:
        keys = enumerate(entry[KEY] for entry in entries)
        return {
            place: Failed(key.error)  # type: ignore[arg-type]
            for place, key in keys
            if isinstance(key, KeyFailure)
        }

    def _decoded(
        self, entries: Sequence[Entry], records: Sequence[Record], unfit: dict[int, Result]
    ) -> list[Any]:
        """Return what the records hold; where that does not fit, note what failed, by its place.

        Later records of a key that failed are not decoded: they are handled after it.
        """
        assert self._decode is not None
        values: list[Any] = [None] * len(records)
        failed: set[Name] = set()
        for place, record in enumerate(records):
            if place in unfit or (failed and Router.name_of(entries[place]) in failed):
                continue
            try:
                values[place] = self._decode(record)
            except MemoryError:
                raise
            except Exception as error:  # the record's own: `Failures` decides
                unfit[place] = Failed(error)
                entries = self._with_keys(entries)
                failed.add(Router.name_of(entries[place]))
        return values

    def _call(self, batch: Batch[Any], entries: Sequence[Entry]) -> AbstractContextManager[Call | None]:
        """Return what keeps what the call sends, where it may send."""
        return nullcontext() if self._outlet is None else self._outlet.begin(*entries, batch=batch)

    def _number(self, entry: Entry) -> int:
        return self._router.attempt_of(entry).number

    def _records(self, entries: Sequence[Entry]) -> list[Record]:
        make_record = self._make_record
        if not self._router.attempts:
            return list(map(make_record, map(itemgetter(MESSAGE), entries)))
        return [make_record(entry[MESSAGE], self._number(entry)) for entry in entries]

    def _report_ends(self, entries: Sequence[Entry], ends: Mapping[int, str], history: History) -> None:
        # The history knows one record of a key at a time: the first of each key starts with the batch, each
        # further one when the one before it has ended.
        for of_key in _by_key(entries):
            for place, entry in enumerate(of_key):
                if place:
                    history.started(*self._what(entry))
                end = ends.get(id(entry[MESSAGE]), Outcome.FINISHED.value)
                history.finished(*self._what(entry), end)
                if end == "failed":
                    break

    def _what(self, entry: Entry) -> tuple[Any, int, int, Any, int]:
        message, key, epoch = entry[MESSAGE], entry[KEY], entry[EPOCH]
        return epoch.partition, epoch.number, message.offset(), users_key(key), self._number(entry)


def _by_key(entries: Iterable[Entry]) -> Iterable[list[Entry]]:
    found: dict[Name, list[Entry]] = {}
    for entry in entries:
        found.setdefault(Router.name_of(entry), []).append(entry)
    return found.values()


def _refuse_deferrals(batch: Batch, results: dict[int, Result]) -> None:
    """Let records that were deferred fail: their batch has ended, and waits for no answer."""
    if not DEFERRED:
        return
    for index, record in enumerate(batch):
        token = DEFERRED.pop(id(engines_own(record)), None)
        if token is not None:
            token.close("void")
            text = "a record of a batch cannot be deferred: finish the record before the handler returns"
            results[index] = Failed(RuntimeError(f"{record.where}: {text}"))
