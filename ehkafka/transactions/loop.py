"""Carries out one transaction after another, on `ehkafka-transactions`.

The poll thread submits positions with the group's metadata of that moment, and takes the result later. A
thread waits for a result only in a rebalance callback and at the end of a run: otherwise neither the poll
thread, nor heartbeats, nor handlers wait for a commit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, FencedError
from ehkafka.events import TransactionAborted, TransactionProducerReplaced
from ehkafka.outputs.batch import batch_limit, smaller_batches
from ehkafka.outputs.output import PARTS, size_of
from ehkafka.progress.commit_transports import as_offset
from ehkafka.records.client_codes import ClientCode
from ehkafka.transactions.committing import FENCED, SendOffsets
from ehkafka.transactions.coverage import Coverage
from ehkafka.transactions.handing import BATCHES_MAX, Handing, SomeRefusedError, batch_outputs
from ehkafka.transactions.hanging import HANGS, HANGS_S, HangsError, RunningTime, call_within
from ehkafka.transactions.producer import AGAIN_S, CALL_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ehkafka.events import Event
    from ehkafka.outputs.output import OutputRefusedError
    from ehkafka.records import TopicPartition
    from ehkafka.transactions.group_commits import GroupCommits
    from ehkafka.transactions.held import HeldOutputs
    from ehkafka.transactions.producer import TransactionalProducer

REFUSED: Final = "an output is refused"
TAKEN_AWAY: Final = "its partitions are taken away, or the app stops"
# Messages that come back to the client during an abort are dropped by the next call (librdkafka 2.16).
ABORT_S: Final = 0.2
REPORTS_S: Final = 2.0
IDLE_S: Final = 0.5
# After this time a transaction under way is a problem.
PROBLEM_S: Final = 5.0


class _AbortError(Exception):
    """The transaction is aborted; `by` is the reason."""

    def __init__(self, by: KafkaError) -> None:
        super().__init__(by)
        self.by = by


class _LostError(_AbortError):
    """Its producer has to be replaced."""


class TransactionLoop:
    """Owns the producer from `start` on. `submit` and `stop` from other threads."""

    def __init__(
        self,
        held: HeldOutputs,
        producer: TransactionalProducer,
        *,
        emit: Callable[[Event], None],
        fatal: Callable[[EhkafkaError], None],
        on_death: Callable[[BaseException], None],
        group: GroupCommits,
        is_id_shared: bool,
        busy: Collection[int],
        timeout_s: float,
    ) -> None:
        """`is_id_shared`: other processes may have the id. Brokers end a transaction after `timeout_s`."""
        self._held = held
        self._producer = producer
        self._emit = emit
        self._fatal = fatal
        self._on_death = on_death
        self._group = group
        self._is_id_shared = is_id_shared
        self._busy = busy
        self._timeout_s = timeout_s
        # Appended by the poll thread, or by the one that commits at the end.
        self._requests: deque[SendOffsets] = deque()
        self._wake = threading.Event()
        # When the stop ends, even if a request is not over.
        self._ends_s: float | None = None
        # Another process has the id: a further producer of ours would fence that process.
        self._fenced_by: KafkaError | None = None
        # Since when a request is under way, and for what it waits. Read by any thread.
        self._since_s: float | None = None
        self._waits_for: str | None = None
        # Of its transaction: when it began, its outputs, and the refused ones by place.
        self._time = RunningTime(time.monotonic)
        self._handing: Handing | None = None
        self._refused: dict[int, OutputRefusedError] = {}
        # The largest size of the clients' batches in bytes; None: their properties decide.
        self._batch_bytes: int | None = None
        # The last transaction's outputs were refused, but each was accepted in a smaller batch.
        self._was_together = False
        self._thread = threading.Thread(target=self._main, name="ehkafka-transactions", daemon=True)

    # -- other threads ---------------------------------------------------------------------------------

    def start(self, probe: Callable[[Any], None] | None = None) -> None:
        """Open the producer and start the thread. Raises `ConfigurationError` or `EndpointError`.

        `probe` is called with the client before the thread starts.
        """
        self._producer.start_app({}, self._reported)
        if probe is not None:
            probe(self._producer.client)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Tell whether its thread still runs. From any thread."""
        return self._thread.is_alive()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is this one."""
        return thread is self._thread

    @property
    def problem(self) -> str | None:
        """Why a transaction takes long; None if none does. From any thread."""
        since_s, why = self._since_s, self._producer.standing_problem or self._waits_for
        if since_s is None or (waited_s := time.monotonic() - since_s) < PROBLEM_S:
            return None
        return (
            f"a transaction has not been committed for {waited_s:.0f} s: "
            f"{why or 'the broker does not answer'}"
        )

    def undecided(self) -> set[TopicPartition]:
        """Return the partitions of transactions that are not over: their commits may change. Any thread."""
        return {partition for request in tuple(self._requests) for partition in request.positions}

    def submit(self, request: SendOffsets) -> None:
        """Add a request; `request.done` is set when its transaction is committed or aborted."""
        self._requests.append(request)
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread; a transaction under way is aborted unless it is being committed.

        If that takes longer than `timeout_s`, the broker ends the transaction, or the next producer with this
        id.
        """
        self._ends_s = time.monotonic() + timeout_s
        for request in tuple(self._requests):
            request.is_unwanted = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # -- the thread ------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while self._ends_s is None or self._requests:
                self._held.drop_late()
                if not self._requests:
                    self._wake.wait(IDLE_S)
                    self._wake.clear()
                    self._producer.serve()
                    continue
                # The request stays in the queue until it is over: `stop` finds it there.
                self._carry_out(self._requests[0])
                self._requests.popleft().done.set()
        except BaseException as error:  # otherwise nothing would be committed, without an error
            self._on_death(error)
        finally:
            while self._requests:
                request = self._requests.popleft()
                request.error = request.error or KafkaError(ClientCode.STATE, "the transactions have ended")
                request.done.set()
            self._producer.give_up()

    def _is_late(self) -> bool:
        self._time.note_running()
        return self._ends_s is not None and time.monotonic() >= self._ends_s + CALL_S

    def _reported(self, error: KafkaError | None, message: object) -> None:
        if self._handing is not None:
            self._handing.reported(error, message)

    def _carry_out(self, request: SendOffsets) -> None:
        """Carry out transactions of a request until one is committed, or another try is of no use."""
        self._since_s = time.monotonic()
        # The positions were fixed before: all outputs of the records that they cover are put.
        coverage = Coverage(request.positions)
        try:
            while True:
                began_s, count = time.monotonic(), self._held.take(coverage)
                self._handing, self._refused = None, {}
                batch_bytes = self._batch_bytes
                try:
                    self._transact(request)
                except _AbortError as aborted:
                    request.error = aborted.by
                    # Before `done`: the next positions must stay below a refused output.
                    self._held.take_back(self._refused)
                    if not self._held.has_undecided:
                        reason, took_s = describe_error(aborted.by), time.monotonic() - began_s
                        self._emit(TransactionAborted(tuple(request.positions), count, reason, took_s))
                    goes_on = self._refused or self._batch_bytes != batch_bytes
                    if not goes_on or self._is_over(request):
                        return
                else:
                    request.error = None
                    self._group.note(request.positions)
                    self._held.committed()
                    self._was_together = False
                    return
                finally:
                    request.took_s = time.monotonic() - self._time.began_s
        finally:
            request.is_committing = False
            self._handing = self._since_s = self._waits_for = None

    def _transact(self, request: SendOffsets) -> None:
        """Carry out one transaction. Raises `_AbortError` if it was aborted."""
        self._time = RunningTime(time.monotonic)
        if self._held.is_too_late:  # it would commit these positions without their outputs
            raise _AbortError(KafkaError(ClientCode.STATE, TAKEN_AWAY))
        if self._held.has_undecided:
            raise _AbortError(KafkaError(ClientCode.STATE, "a refused output waits for a decision"))
        # Outputs that were refused before are tried first: otherwise others would be suspected again.
        if self._held.refused_before:
            self._refused = self._try(request, self._held.refused_before[:BATCHES_MAX], 1)
            if self._refused:
                raise _AbortError(KafkaError(ClientCode.STATE, REFUSED))
        client = self._client(request, batch_limit(self._batch_bytes))
        handing = self._handing_of(request, client)
        try:
            self._send_and_commit(request, client, handing)
        except _LostError as lost:
            self._replace(lost)
            if not (request.is_committing and self._resolve(request)):
                raise
        except _AbortError:
            # If the broker has not confirmed the abort, the commit may have been first.
            if not self._abort(client, handing) and request.is_committing and self._resolve(request):
                return
            self._find_refused(request, handing)
            raise

    def _handing_of(self, request: SendOffsets, client: object) -> Handing:
        self._handing = Handing(
            client, self._held.sent, busy=self._busy, is_over=lambda: self._is_over(request)
        )
        return self._handing

    def _send_and_commit(self, request: SendOffsets, client: Any, handing: Handing) -> None:
        offsets = [as_offset(partition, position) for partition, position in request.positions.items()]
        request.is_committing = False
        self._insist(request, client.begin_transaction)
        self._hand(handing.hand_all)
        self._insist(request, lambda: client.send_offsets_to_transaction(offsets, request.metadata, CALL_S))
        # From here on only the broker knows whether it is aborted.
        request.is_committing = True
        self._insist(request, lambda: client.commit_transaction(CALL_S))

    @staticmethod
    def _hand(hand: Callable[[], None]) -> None:
        try:
            hand()
        except SomeRefusedError:
            raise _AbortError(KafkaError(ClientCode.STATE, REFUSED)) from None
        except KafkaException as failed:
            error = failed.args[0]
            raise (_LostError if error.fatal() else _AbortError)(error) from None

    def _find_refused(self, request: SendOffsets, handing: Handing) -> None:
        """Find the refused outputs of a refused batch. Without any, the next client has smaller batches.

        Raises `_AbortError` if the search has to end before.
        """
        self._refused, named = handing.refused, handing.named
        before = most = len(named)
        while named and most > 1:
            suspects, before, most = named, most, batch_outputs(len(named))
            named = self._try(request, [*suspects], most)
        if named:
            self._refused |= named
        elif before and (self._was_together or any(error.is_too_large for error in suspects.values())):
            self._was_together = False
            flat = self._held.sent
            size = size_of([part for place in suspects for part in flat[place * PARTS : (place + 1) * PARTS]])
            self._batch_bytes = smaller_batches(self._batch_bytes, size * before // len(suspects))
        else:
            self._was_together = before > 0

    def _try(self, request: SendOffsets, places: Sequence[int], most: int) -> dict[int, OutputRefusedError]:
        """Send some outputs, in batches of up to `most`, in a transaction that is aborted in any case.

        Return the errors of those in refused batches, by place; the others were accepted, or were not tried.
        Raises `_AbortError` if that is not known.
        """
        request.is_committing = False
        self._time = RunningTime(time.monotonic)
        client = self._client(request, {"batch.num.messages": most})
        trial = self._handing_of(request, client)
        try:
            self._insist(request, client.begin_transaction)
            self._hand(lambda: trial.try_out(places))
        except _AbortError:
            if not (trial.refused or trial.named):
                raise
        finally:
            self._abort(client, trial)
        return trial.refused or trial.named

    def _is_over(self, request: SendOffsets) -> bool:
        """Tell whether a transaction is not needed any more, unless it is being committed."""
        self._time.note_running()
        return request.is_unwanted or self._ends_s is not None

    def _insist(self, request: SendOffsets, call: Callable[[], object]) -> None:
        """Call until it succeeds. After a time-out the operation continues; the next call waits for it."""
        while True:
            if self._is_over(request) and not request.is_committing:
                raise _AbortError(KafkaError(ClientCode.STATE, TAKEN_AWAY))
            try:
                call_within(call, HANGS_S, self._is_late)
            except HangsError:
                raise _LostError(KafkaError(ClientCode.TIMED_OUT, HANGS)) from None
            except KafkaException as failed:
                error = failed.args[0]
                self._producer.is_disturbed |= error.code() != ClientCode.TIMED_OUT
                if error.fatal():
                    raise _LostError(error) from None
                if error.txn_requires_abort() or not error.retriable():
                    raise _AbortError(error) from None
                # A call can hang if its request was lost with its broker. By now the broker has aborted a
                # transaction that was still open; opening the next producer shows what became of this one.
                if self._is_late() or self._time.ran_s > self._timeout_s:
                    raise _LostError(error) from None
                self._wait(error)
            else:
                return

    def _wait(self, error: KafkaError) -> None:
        self._waits_for = describe_error(error)
        self._producer.serve()
        time.sleep(AGAIN_S)

    def _abort(self, client: Any, handing: Handing) -> bool:
        """Abort a transaction. If its producer cannot, the producer is replaced, and the next one does it.

        True: the broker has confirmed the abort.
        """
        while True:
            try:
                call_within(lambda: client.abort_transaction(ABORT_S), HANGS_S, self._is_late)
            except HangsError:
                self._replace(_LostError(KafkaError(ClientCode.TIMED_OUT, HANGS)))
                return False
            except KafkaException as failed:
                error = failed.args[0]
                self._producer.is_disturbed |= error.code() != ClientCode.TIMED_OUT
                if error.fatal() or not error.retriable() or self._time.ran_s > 2 * self._timeout_s:
                    self._replace(_LostError(error))
                    return False
                # One try in any case: an open transaction blocks the next owner until the broker ends it.
                if self._ends_s is not None:
                    return False
                self._wait(error)
            else:
                handing.settle(REPORTS_S)
                if handing.has_failed:
                    # It needs another epoch of its id, and its next messages may wait until they time out
                    # (librdkafka 2.16).
                    self._producer.give_up()
                return True

    def _client(self, request: SendOffsets, limit: dict[str, int]) -> Any:
        """Return the producer; a new one if there is none, or if its batches have another limit."""
        producer = self._producer
        if self._fenced_by is not None:
            raise _AbortError(self._fenced_by)
        if producer.client is not None and producer.limit != limit:
            producer.give_up()
        if producer.client is None or producer.is_disturbed:
            try:
                self._open(limit)
            except KafkaException as failed:
                self._check_fenced(failed.args[0])
                raise _AbortError(failed.args[0]) from None
            except EhkafkaError as failed:
                raise _AbortError(KafkaError(ClientCode.STATE, str(failed))) from None
            except HangsError:
                raise _AbortError(KafkaError(ClientCode.TIMED_OUT, HANGS)) from None
        self._producer.serve()
        if self._is_over(request):
            raise _AbortError(KafkaError(ClientCode.STATE, TAKEN_AWAY))
        return producer.client

    def _open(self, limit: dict[str, int]) -> None:
        self._producer.start(limit, self._reported, lambda: self._ends_s is not None)

    def _replace(self, lost: _LostError) -> None:
        # A broker itself fences the producer of a transaction that took too long, as after an outage. But if
        # this process was suspended, another one may have taken over: a new producer would fence it.
        if self._time.ran_s < self._timeout_s:
            self._check_fenced(lost.by)
        self._producer.give_up()
        self._emit(TransactionProducerReplaced(describe_error(lost.by)))

    def _check_fenced(self, error: KafkaError) -> None:
        if error.code() in FENCED and self._is_id_shared:
            self._fenced_by = error
            self._fatal(
                FencedError(
                    f"exactly_once: another process has the transactional ID of this app, which is made "
                    f"from its group and instance_id: give each process its own instance_id. "
                    f"{describe_error(error)}"
                )
            )

    def _resolve(self, request: SendOffsets) -> bool:
        """Find out whether a transaction was committed although its producer was lost."""
        # First another producer with the same id: opening it waits until the broker has ended the
        # transaction.
        while not (self._ends_s is not None or self._fenced_by):
            try:
                if self._producer.client is None:
                    self._open(batch_limit(self._batch_bytes))
                return call_within(
                    lambda: self._group.were_made(request.changed), HANGS_S, lambda: self._ends_s is not None
                )
            except KafkaException as failed:
                self._check_fenced(failed.args[0])
                self._wait(failed.args[0])
            except EhkafkaError as failed:
                self._wait(KafkaError(ClientCode.STATE, str(failed)))
            except HangsError:
                self._wait(KafkaError(ClientCode.TIMED_OUT, HANGS))
        return False
