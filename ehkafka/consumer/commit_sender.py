"""Sends the commits that were asked for: one request at a time, the asynchronous ones at the service's pace.

A thread that has a turn inside the consumer, or finds none there, sends for all that wait:

- the polling thread, whenever it comes by: asynchronously; the answer comes inside its polling;
- a thread that waits for an answer, while no thread polls: synchronously, with all others that wait;
- the thread `ehkafka-commits`, when something waits and the program does not poll for a while. It starts
  with such a commit, ends when there was none for a while, and must have ended before the consumer is closed.

No callback of the program runs here.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from ehkafka.consumer.commit_requests import AS_MARKED, Answer, CommitRequest, Merged
from ehkafka.progress.committer import names_metadata
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence

    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as KafkaPartition

    from ehkafka.consumer.access import Access
    from ehkafka.consumer.carried_facts import CarriedFacts
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import CommitLedger, Position
    from ehkafka.records import TopicPartition

# A program that has not polled for so long is busy: what waits is sent for it.
BUSY_S = 0.5
# The sender ends after so long without work: a consumer that is not closed can then be collected.
IDLE_S = 5.0


class CommitSender:
    """The commits of one consumer. `bare` is confluent-kafka's own view of it."""

    def __init__(
        self,
        bare: Any,
        committer: Committer,
        ledger: CommitLedger,
        access: Access,
        *,
        answers: deque[Answer],
        clock: Callable[[], float],
        facts: CarriedFacts,
        marked: Callable[[TopicPartition], Position | None] | None = None,
    ) -> None:
        """`marked` says where the marks of a partition are, None if it has none.

        `answers` takes what `on_commit` is still to hear, oldest first. Any thread appends.
        """
        self._bare = bare
        self._committer = committer
        self._ledger = ledger
        self._access = access
        self._answers = answers
        self._clock = clock
        self._facts = facts
        self._marked = marked or (lambda _partition: None)
        # For the sender, who would wake at every turn otherwise.
        self._work = threading.Condition(access.lock)
        # All under the lock of `access`, but for looks.
        self._waiting = Merged()
        # Sent by `pump`, not answered.
        self._in_flight: Merged | None = None
        self._sender: threading.Thread | None = None
        self._is_stopped = False
        self._sent = 0

    # --- the polling thread ---------------------------------------------------------------------------

    def pump_from_poll(self) -> None:
        """Do what there is to do for the commits before this thread polls; it has said that it will."""
        self._access.wait_for_senders()
        self.pump()

    def pump(self) -> None:
        """Send what is due without waiting for the answer, if this thread may. Any thread."""
        if not self._access.is_wanted:
            return
        with self._access.lock:
            request = self._begin() if self._is_due() and self._access.may_enter() else None
        if request is not None:
            self._send_off(request)

    def on_commit(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> bool:
        """Take the answer to an asynchronous commit; False: it is not to one of ours."""
        with self._access.lock:
            request = self._in_flight
            if request is None or not request.is_answered_by(partitions):
                return False
        self._committer.on_commit(error, partitions)
        if names_metadata(error, partitions) and self._facts.refused():
            # A commit never fails for our metadata.
            with self._access.lock:
                self._in_flight, request = None, self._begin(request)
            self._send_off(request)
        else:
            self._land(request, error, partitions)
        return True

    def flush(self) -> None:
        """Send what waits, whatever the pace, and wait for the answer. Nothing waits: returns at once."""
        with self._access.lock:
            self._access.wait_until_unused()
            if not self._waiting:
                return
            request = self._begin()
        self._send(request)

    def drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up what waits for partitions that were lost."""
        error = KafkaError(ClientCode.ASSIGNMENT_LOST)
        with self._access.lock:
            self._report(self._waiting.drop(partitions, error))
            self._note_waiting()
            self._access.changed.notify_all()

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """What was stored for these belongs to an assignment that is over."""
        for partition in partitions:
            self._ledger.ended(partition)

    def stop(self) -> None:
        """Take requests of this thread only, and send nothing unasked; the sender ends."""
        with self._access.lock:
            self._is_stopped = True
            self._access.close()
            self._work.notify_all()

    def finish(self) -> None:
        """Wait for the sender, which `stop` has ended, and send what waits: the client may be closed then."""
        sender = self._sender
        if sender is not None:
            sender.join()
        self.flush()

    def closed(self) -> None:
        """The consumer has gone: tell so to each who still waits for an answer."""
        gone = KafkaError(ClientCode.DESTROY)
        with self._access.lock:
            in_flight, self._in_flight = self._in_flight, None
            for request in (in_flight, self._take()):
                if request is not None:
                    request.answer(gone, ())
                    self._report(request.commit_requests)
            self._note_waiting()
            self._access.changed.notify_all()

    # --- any thread -----------------------------------------------------------------------------------

    def ask(self, ask: CommitRequest, *, will_flush: bool = False) -> None:
        """Have it committed soon; returns at once. With `will_flush` the caller sees to it right away."""
        with self._access.lock:
            if not self._waiting:
                self._work.notify()
            self._add(ask, is_awaited=False)
            if self._sender is None and not self._is_stopped:
                self._sender = threading.Thread(target=self._run, name="ehkafka-commits", daemon=True)
                self._sender.start()
        if not will_flush:
            self.pump()

    def commit(self, ask: CommitRequest) -> Answer:
        """Have it committed now, and return the broker's answer."""
        with self._access.lock:
            self._add(ask, is_awaited=True)
            request = self._wait_to_send(ask)
        if request is not None:
            self._send(request)
        assert ask.answer is not None
        return ask.answer

    @property
    def has_unanswered(self) -> bool:
        """Whether a commit was asked for whose answer has not come."""
        return self._in_flight is not None or bool(self._waiting)

    def settle(self) -> None:
        """Return when all that was asked for is answered. Also while another thread polls."""
        ask = CommitRequest({}, [])
        with self._access.lock:
            last = self._in_flight
            if last is not None and last.number == self._sent and self._access.poller is None:
                # Nothing polls any more, so its answer would never come: it goes again, and waits for it.
                self._waiting.positions = {**last.positions, **self._waiting.positions}
            if not self._waiting:
                return
            self._add(ask, is_awaited=True)
            request = self._wait_to_send(ask)
        if request is not None:
            self._send(request)

    def acknowledged(self, partition: TopicPartition) -> int | None:
        """Return the next_offset that the broker has stored for this consumer, None if it stored none."""
        known = self._ledger.acknowledged(partition)
        return None if known is None else known.next_offset

    def _add(self, ask: CommitRequest, *, is_awaited: bool) -> None:
        self._access.wants_in()
        self._waiting.add(ask, is_awaited=is_awaited)
        self._note_waiting()

    def _take(self) -> Merged:
        request, self._waiting = self._waiting, Merged()
        return request

    def _note_waiting(self) -> None:
        self._access.is_wanted = bool(self._waiting)

    def _wait_to_send(self, ask: CommitRequest) -> Merged | None:
        """Wait until no thread is inside; return the request to send, None if another has sent it."""
        access = self._access
        access.waiting_threads += 1
        is_late = False
        try:
            while ask.answer is None:
                is_away = self._in_flight is not None and ask in self._in_flight.commit_requests
                # The polling thread sent it and has been away since: only its polling brings the answer.
                if (not is_away or is_late) and access.may_enter():
                    return self._begin(Merged(dict(ask.positions), [ask]) if is_away else None)
                is_late = not access.changed.wait(BUSY_S) and access.poller is None
        finally:
            access.waiting_threads -= 1
        return None

    def _is_due(self) -> bool:
        if self._access.is_sending or self._in_flight is not None or not self._waiting:
            return False
        return self._access.waiting_threads > 0 or self._pace_allows()

    def _pace_allows(self) -> bool:
        return self._clock() >= self._ledger.next_due_s()

    def _begin(self, request: Merged | None = None) -> Merged:
        self._access.is_sending = True
        request = self._take() if request is None else request
        self._note_waiting()
        self._check_marks(request)
        self._sent += 1
        request.number = self._sent
        # Each request is news to the ledger, also one that repeats a position or goes back.
        for partition, position in request.positions.items():
            self._ledger.assigned(partition, self._sent, None)
            request.positions[partition] = position._replace(epoch=self._sent)
        return request

    def _check_marks(self, request: Merged) -> None:
        for partition in [p for p, position in request.positions.items() if position is AS_MARKED]:
            position, known = self._marked(partition), self._ledger.acknowledged(partition)
            if position is not None and (known is None or known.next_offset != position.next_offset):
                request.positions[partition] = position
                continue
            del request.positions[partition]
            if position is not None:
                request.unmoved[partition] = position

    def _send(self, request: Merged) -> None:
        """Send and wait."""
        error: KafkaError | None = _interrupted()
        partitions: Sequence[KafkaPartition] = ()
        try:
            if request.positions:
                error, partitions = self._commit_once(request)
                if names_metadata(error, partitions) and self._facts.refused():
                    error, partitions = self._commit_once(request)
            else:
                error = None
        finally:
            self._land(request, error, partitions)

    def _commit_once(self, request: Merged) -> tuple[KafkaError | None, Sequence[KafkaPartition]]:
        return self._committer.commit_once(self._bare, self._facts.dressed(request.positions))

    def _send_off(self, request: Merged) -> None:
        """Send; the answer comes to `on_commit`."""
        error: KafkaError | None = _interrupted()
        is_away = False
        try:
            error = self._committer.send(self._bare, self._facts.dressed(request.positions), 0)
            is_away = error is None and bool(request.positions)
        finally:
            if is_away:
                with self._access.lock:
                    self._in_flight, self._access.is_sending = request, False
                    self._access.changed.notify_all()
            else:
                self._land(request, error, ())

    def _land(self, request: Merged, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        with self._access.lock:
            if request is self._in_flight:
                self._in_flight = None
            else:
                self._access.is_sending = False
            request.answer(error, partitions)
            self._report(request.commit_requests)
            self._access.changed.notify_all()

    def _report(self, commit_requests: Sequence[CommitRequest]) -> None:
        for ask in commit_requests:
            if ask.is_reported:
                assert ask.answer is not None
                self._answers.append(_plain(ask.answer))

    # --- the sender -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while (turn := self._next()) is not None:
            try:
                self._send(turn[0])
            except Exception:
                # Who asked was answered; the next ones must still be sent.
                logging.getLogger("ehkafka.consumer").exception("A commit failed. Please report this error.")
            turn = None  # where the program has let it go, the consumer ends here

    def _next(self) -> tuple[Merged, Consumer] | None:
        """Wait until something waits and the program does not poll; None: it is time to end.

        The consumer comes along: it must not end before its commit, where the program lets it go meanwhile.
        """
        access = self._access
        with access.lock:
            polls = -1
            while not self._is_stopped:
                is_busy = polls == access.polls and access.poller is None
                consumer = self._bare.consumer() if is_busy else None
                if consumer and self._waiting and self._pace_allows() and access.may_enter():
                    return self._begin(), consumer
                consumer = None
                polls = access.polls
                if not self._work.wait(BUSY_S if self._waiting else IDLE_S) and not self._waiting:
                    break
            self._sender = None
            return None


def _interrupted() -> KafkaError:
    return KafkaError(ClientCode.FAIL, "the commit was interrupted")


def _plain(answer: Answer) -> Answer:
    """Return an answer as `on_commit` gets it: without the words that exceptions put before."""
    error, partitions = answer
    return None if error is None else KafkaError(error.code()), partitions
