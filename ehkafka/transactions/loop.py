"""Carries out one transaction after another, on `ehkafka-transactions`.

The poll thread submits what is to be committed, with the group's metadata of that moment, and takes the
outcome later; only in a rebalance callback and at the end does somebody wait for it. Neither that thread, nor
heartbeats, nor handlers wait for a commit.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, FencedError
from ehkafka.events import TransactionAborted, TransactionProducerReplaced
from ehkafka.outputs.bundle import Bundle
from ehkafka.progress.commits import as_offset
from ehkafka.transactions.coverage import Coverage
from ehkafka.transactions.hanging import HANGS_S, HangsError, call_within
from ehkafka.transactions.sending import Sending, SomeRefusedError, mark_of, settle_reports
from ehkafka.transactions.trial import Trial, alike

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from ehkafka.transactions.book import Held, TransactionBook
    from ehkafka.transactions.producer import TransactionalProducer
    from ehkafka.transactions.refusals import Refusals
    from ehkafka.transactions.sending import Sent

# What one call of the client may take: between two of them a transaction that nobody wants is aborted.
CALL_S: Final = 1.0
AGAIN_S: Final = 0.05
REPORTS_S: Final = 2.0
# What the broker gets for the next producer's id: it ends what the last one has left open meanwhile.
OPEN_S: Final = 10.0
IDLE_S: Final = 0.5
# From here on a transaction under way is a problem.
PROBLEM_S: Final = 5.0
_HANGS = "the client does not return from a call (librdkafka#5456)"
_TIMED_OUT: Final = KafkaError._TIMED_OUT  # noqa: SLF001 - librdkafka's own codes start with an underscore
_STATE: Final = KafkaError._STATE  # noqa: SLF001 - librdkafka's own codes start with an underscore
# The producer's id is another's now, or its transaction took longer than the broker waits.
_FENCED: Final = frozenset({KafkaError._FENCED, 47, 90})  # noqa: SLF001


class Stage(enum.Enum):
    """How far a transaction has come. Beyond `COMMITTING` only the broker knows its outcome."""

    SUBMITTED = "submitted"
    OPEN = "open"
    COMMITTING = "committing"
    OVER = "over"


class Request:
    """What one transaction commits. `error` counts once `done` is set; None: it is committed."""

    def __init__(
        self,
        positions: Mapping[TopicPartition, Position],
        metadata: bytes,
        changed: Mapping[TopicPartition, Position],
    ) -> None:
        """`metadata` are the group's; `changed` is what of the positions differs from what the group has."""
        self.positions = positions
        self.metadata = metadata
        self.changed = changed
        self.stage = Stage.SUBMITTED
        self.error: KafkaError | None = None
        self.took_s = 0.0
        self.done = threading.Event()
        # Nobody wants it any more: abort it unless it is being committed. Set by the poll thread.
        self.is_unwanted = False


class _AbortError(Exception):
    """The transaction is aborted. `by` says why, and `refused` which outputs the broker does not take.

    Then `apart` has all of its outputs, as those by which they were tried.
    """

    def __init__(
        self,
        by: KafkaError,
        refused: Sequence[tuple[Sent, str]] = (),
        apart: Sequence[Held] | None = None,
    ) -> None:
        super().__init__(by)
        self.by = by
        self.refused = refused
        self.apart = apart


class _LostError(_AbortError):
    """Its producer is of no use any more."""


class TransactionLoop:
    """Owns the producer from `start` on. `submit` and `stop` from other threads."""

    def __init__(
        self,
        book: TransactionBook,
        producer: TransactionalProducer,
        trial_producer: TransactionalProducer,
        refusals: Refusals,
        *,
        emit: Callable[[Event], None],
        fatal: Callable[[EhkafkaError], None],
        on_death: Callable[[BaseException], None],
        was_committed: Callable[[Mapping[TopicPartition, Position]], bool],
        is_id_shared: bool,
        busy: Collection[int],
        timeout_s: float,
    ) -> None:
        """`was_committed` asks the broker, where a producer was lost while it committed.

        `is_id_shared`: another process may have been started with the same id. `timeout_s` is how long the
        broker lets a transaction be open.
        """
        self._book = book
        self._producer = producer
        # Opened for the first refusal; it has an id of its own, and commits nothing.
        self._trial_producer = trial_producer
        self._refusals = refusals
        self._emit = emit
        self._fatal = fatal
        self._on_death = on_death
        self._was_committed = was_committed
        self._is_id_shared = is_id_shared
        self._busy = busy
        self._timeout_s = timeout_s
        # Appended by the poll thread, or by who commits at the end.
        self._requests: deque[Request] = deque()
        self._wake = threading.Event()
        self._is_stopping = False
        # Another process has the id: a producer more with it would fence that one in turn.
        self._fenced_by: KafkaError | None = None
        # Since when the transaction under way is, and what it waits for. Read by any thread.
        self._since_s: float | None = None
        self._waits_for: str | None = None
        self._thread = threading.Thread(target=self._main, name="ehkafka-transactions", daemon=True)

    def start(self, probe: Callable[[Any], None] | None = None) -> None:
        """Open the producer and start the thread. Raises `ConfigurationError` or `EndpointError`.

        `probe` is called with the producer's client before.
        """
        self._producer.start_app()
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
        """What a transaction waits for, once it has waited for long. From any thread."""
        since_s, why = self._since_s, self._waits_for
        if since_s is None or (waited_s := time.monotonic() - since_s) < PROBLEM_S:
            return None
        return f"a transaction is not committed after {waited_s:.0f} s: {why or 'the broker does not answer'}"

    def submit(self, request: Request) -> None:
        """Take what is to be committed; `request.done` is set once it is, or was aborted."""
        self._requests.append(request)
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread; a transaction under way is aborted unless it is being committed."""
        self._is_stopping = True
        for request in tuple(self._requests):
            request.is_unwanted = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _main(self) -> None:
        try:
            while not (self._is_stopping and not self._requests):
                if not self._requests:
                    self._wake.wait(IDLE_S)
                    self._wake.clear()
                    self._serve()
                    continue
                # It stays in the queue until it is over: whoever stops this thread finds it there.
                self._carry_out(self._requests[0])
                self._requests.popleft().done.set()
        except BaseException as error:  # nothing would be committed, and nobody would know
            self._on_death(error)
        finally:
            while self._requests:
                request = self._requests.popleft()
                request.error = request.error or KafkaError(_STATE, "the transactions have ended")
                request.done.set()
            self._producer.give_up()
            self._trial_producer.give_up()

    def _serve(self) -> None:
        try:
            self._producer.serve()
            self._trial_producer.serve()
        except KafkaException as failed:  # lost while idle: the next transaction finds it so, and replaces it
            self._waits_for = describe_error(failed.args[0])

    def _carry_out(self, request: Request) -> None:
        began_s = self._since_s = time.monotonic()
        self._refusals.take_decisions()
        # What is to be committed was fixed before: of what is finished by then, all outputs are in the book.
        outputs = self._book.take(Coverage(request.positions))
        try:
            self._run(request, outputs)
        except _AbortError as aborted:
            request.error = aborted.by
            self._book.aborted(aborted.apart)
            # Before `done`: the next positions must be below them.
            for output, error in aborted.refused:
                self._refusals.add(output, error)
            count = sum(len(one) if isinstance(one, Bundle) else 1 for one in outputs)
            reason, took_s = describe_error(aborted.by), time.monotonic() - began_s
            self._emit(TransactionAborted(tuple(request.positions), count, reason, took_s))
        else:
            self._book.committed()
            for sent in outputs if self._refusals.has_any else ():
                self._refusals.sent(sent)
        finally:
            request.took_s = time.monotonic() - began_s
            request.stage = Stage.OVER
            self._since_s = self._waits_for = None

    def _run(self, request: Request, outputs: Sequence[Held]) -> None:
        """Carry one out. Raises `_AbortError` where none of it counts."""
        client = self._client(request)
        sending = Sending(
            client,
            busy=self._busy,
            is_over=lambda: request.is_unwanted or self._is_stopping,
        )
        try:
            self._send_and_commit(request, client, sending, outputs)
        except _LostError as lost:
            was_committing = request.stage is Stage.COMMITTING
            self._replace(lost)
            if not (was_committing and self._resolve(request)):
                raise
        except _AbortError as aborted:
            was_committing = request.stage is Stage.COMMITTING
            # An abort that the broker has not done says nothing: the commit may have come first.
            if not self._abort(client) and was_committing and self._resolve(request):
                return
            if not sending.suspects:
                raise
            apart = _apart(outputs)
            suspects = [one for one in apart if mark_of(one) in sending.suspects]
            raise _AbortError(aborted.by, self._refused(suspects, apart), apart) from None

    def _refused(self, suspects: Sequence[Sent], outputs: Sequence[Sent]) -> list[tuple[Sent, str]]:
        """Return which outputs of a transaction the broker refuses; `suspects` were in a refused batch.

        Where it does not tell, none: they go again.
        """
        producer = self._trial_producer
        try:
            if producer.client is None:
                producer.start(timeout_s=OPEN_S)
            trial = Trial(producer.client, busy=self._busy, is_over=lambda: self._is_stopping)
            refused = trial.refused(suspects)
            # Found now, each of them costs no transaction of its own.
            return trial.refused(alike([one for one, _ in refused], outputs, suspects))
        except (KafkaException, EhkafkaError, HangsError) as failed:
            producer.give_up()
            is_clients = isinstance(failed, KafkaException)
            reason = describe_error(failed.args[0]) if is_clients else str(failed) or _HANGS
            self._emit(TransactionProducerReplaced(f"trial of refused outputs: {reason}"))
            return []

    def _send_and_commit(
        self, request: Request, client: Any, sending: Sending, outputs: Sequence[Held]
    ) -> None:
        offsets = [as_offset(partition, position) for partition, position in request.positions.items()]
        self._insist(request, client.begin_transaction)
        request.stage = Stage.OPEN
        try:
            sending.send(outputs)
        except SomeRefusedError:
            raise _AbortError(KafkaError(_STATE, "an output is refused")) from None
        except KafkaException as failed:
            error = failed.args[0]
            raise (_LostError if error.fatal() else _AbortError)(error) from None
        self._insist(request, lambda: client.send_offsets_to_transaction(offsets, request.metadata, CALL_S))
        # From here on it is aborted by the broker's word alone.
        request.stage = Stage.COMMITTING
        self._insist(request, lambda: client.commit_transaction(CALL_S))

    def _insist(self, request: Request, call: Callable[[], object]) -> None:
        """Call until it is done. A call that timed out goes on where it was; it is neither done nor over."""
        while True:
            if request.is_unwanted and request.stage is not Stage.COMMITTING:
                raise _AbortError(KafkaError(_STATE, "its partitions are taken away, or the app stops"))
            try:
                call_within(call, HANGS_S)
            except HangsError:
                raise _LostError(KafkaError(_TIMED_OUT, _HANGS)) from None
            except KafkaException as failed:
                error = failed.args[0]
                if error.fatal():
                    raise _LostError(error) from None
                if error.txn_requires_abort() or not error.retriable():
                    raise _AbortError(error) from None
                self._check_time(error)
                self._wait(error)
            else:
                return

    def _check_time(self, error: KafkaError) -> None:
        """Raise `_LostError` for a transaction that the broker has aborted by now, if it was still open.

        A client can hang in a call whose request went down with its broker; the next producer's id settles
        what became of it.
        """
        assert self._since_s is not None
        if time.monotonic() - self._since_s > self._timeout_s:
            raise _LostError(error)

    def _wait(self, error: KafkaError) -> None:
        self._waits_for = describe_error(error)
        time.sleep(AGAIN_S)

    def _abort(self, client: Any) -> bool:
        """Take a transaction back; a producer that cannot is replaced, and its successor does it.

        True: the broker has done it.
        """
        while True:
            try:
                call_within(lambda: client.abort_transaction(CALL_S), HANGS_S)
            except HangsError:
                self._replace(_LostError(KafkaError(_TIMED_OUT, _HANGS)))
                return False
            except KafkaException as failed:
                error = failed.args[0]
                is_late = time.monotonic() - (self._since_s or 0.0) > 2 * self._timeout_s
                if error.fatal() or not error.retriable() or is_late:
                    self._replace(_LostError(error))
                    return False
                # Once in any case: what is left open holds up the next owner until its time is over.
                if self._is_stopping:
                    return False
                self._wait(error)
            else:
                settle_reports(client, REPORTS_S)
                return True

    def _client(self, request: Request) -> Any:
        """Return the producer, a new one where there is none."""
        producer = self._producer
        if self._fenced_by is not None:
            raise _AbortError(self._fenced_by)
        if producer.client is None or producer.has_lost_brokers:
            try:
                producer.start(timeout_s=OPEN_S)
            except KafkaException as failed:
                self._check_fenced(failed.args[0])
                raise _AbortError(failed.args[0]) from None
            except EhkafkaError as failed:
                raise _AbortError(KafkaError(_STATE, str(failed))) from None
        self._serve()
        if request.is_unwanted:
            raise _AbortError(KafkaError(_STATE, "its partitions are taken away, or the app stops"))
        return producer.client

    def _replace(self, lost: _LostError) -> None:
        self._check_fenced(lost.by)
        self._producer.give_up()
        self._emit(TransactionProducerReplaced(describe_error(lost.by)))

    def _check_fenced(self, error: KafkaError) -> None:
        # An id of this process alone is fenced by the broker itself, for a transaction that took too long.
        if error.code() in _FENCED and self._is_id_shared:
            self._fenced_by = error
            self._fatal(
                FencedError(
                    "exactly_once: another process has this app's transactional id, which is made of the "
                    f"group and instance_id=: {describe_error(error)}"
                )
            )

    def _resolve(self, request: Request) -> bool:
        """Find out whether a transaction was committed whose producer was lost meanwhile."""
        # The next one with the same id first: that waits for the end of what the last one began.
        while not (self._is_stopping or self._fenced_by):
            try:
                if self._producer.client is None:
                    self._producer.start(timeout_s=OPEN_S)
                return self._was_committed(request.changed)
            except KafkaException as failed:
                self._check_fenced(failed.args[0])
                self._wait(failed.args[0])
            except EhkafkaError as failed:
                self._wait(KafkaError(_STATE, str(failed)))
        return False


def _apart(outputs: Sequence[Held]) -> list[Sent]:
    """Return the same as single outputs."""
    singles: list[Sent] = []
    for one in outputs:
        singles += one.apart()[2] if isinstance(one, Bundle) else [one]
    return singles
