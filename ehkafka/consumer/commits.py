"""Sends the commits that were asked for: one request at a time, the asynchronous ones at the service's pace.

confluent-kafka lets one thread at a time into a consumer, and who waits for that may wait for ever while
another polls. So whoever is inside, or finds nobody there, sends for all that wait:

- the polling thread, whenever it comes by: asynchronously; the answer comes inside its polling;
- a thread that waits for an answer, while nobody polls: synchronously, with all others that wait;
- the thread `ehkafka-commits`, when something waits and the program does not poll for a while. It starts
  with the first such commit, and must have ended before the consumer is closed.

`_poller` and `_is_sending` keep these apart: each side sets its own first and looks at the other's second.
No callback of the program runs here.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from ehkafka.consumer.asks import AS_MARKED, Answer, Ask, Asks, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as KafkaPartition

    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import CommitLedger, Position
    from ehkafka.records import TopicPartition

# A program that has not polled for so long is busy: what waits is sent for it.
BUSY_S = 0.5


class Commits:
    """The commits of one consumer. `consumer` is confluent-kafka's own view of it."""

    def __init__(
        self,
        consumer: Consumer,
        committer: Committer,
        ledger: CommitLedger,
        *,
        clock: Callable[[], float],
        marked: Callable[[TopicPartition], Position | None] = lambda _partition: None,
    ) -> None:
        """`marked` says where the marks of a partition are, None if it has none."""
        self._consumer = consumer
        self._committer = committer
        self._ledger = ledger
        self._clock = clock
        self._marked = marked
        lock = threading.RLock()
        self._turn = threading.Condition(lock)
        # For the sender, who would wake at every turn otherwise.
        self._work = threading.Condition(lock)
        # All under the lock, but for looks. Set before a look at `_poller`.
        self._is_sending = False
        self._asks = Asks()
        # Sent by `pump`, not answered.
        self._in_flight: Request | None = None
        self._waiting_threads = 0
        self._sender: threading.Thread | None = None
        self._is_stopped = False
        # Who closes the consumer: nobody else gets in from then on.
        self._closer: int | None = None
        self._sent = 0
        # By the polling thread, without the lock, and set before a look at `_is_sending`.
        self._poller: int | None = None
        self._polls = 0
        self._last_poller: int | None = None
        # Whether other threads than the polling one commit: it then comes by often.
        self.is_shared = False
        # Answers that `on_commit` is still to hear, oldest first. Any thread appends, the polling one takes.
        self.answers: deque[Answer] = deque()

    # --- the polling thread ---------------------------------------------------------------------------

    def begin_poll(self) -> None:
        """This thread is about to enter the consumer."""
        self._poller = self._last_poller = threading.get_ident()
        if self._is_sending or self._asks:
            self._let_others_out()
            self.pump()

    def end_poll(self) -> None:
        """This thread has left the consumer."""
        self._poller = None
        self._polls += 1
        if self._waiting_threads:
            with self._turn:
                self._turn.notify_all()

    def pump(self) -> None:
        """Send what is due without waiting for the answer, if this thread may. Any thread."""
        if not self._asks:
            return
        with self._turn:
            request = self._begin() if self._is_due() and self._may_enter() else None
        if request is not None:
            self._send_off(request)

    def on_commit(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> bool:
        """Take the answer to an asynchronous commit; False: it is not to one of ours."""
        with self._turn:
            request = self._in_flight
            if request is None or not request.is_answered_by(partitions):
                return False
        self._committer.on_commit(error, partitions)
        self._land(request, error, partitions)
        return True

    def flush(self) -> None:
        """Send what waits, whatever the pace, and wait for the answer. Nothing waits: returns at once."""
        with self._turn:
            while self._is_sending:
                self._turn.wait()
            if not self._asks:
                return
            request = self._begin()
        self._send(request)

    def drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up what waits for partitions that were lost."""
        error = KafkaError(KafkaError._ASSIGNMENT_LOST)  # noqa: SLF001 - librdkafka's own codes start with _
        with self._turn:
            self._tell(self._asks.drop(partitions, error))
            self._turn.notify_all()

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """What was stored for these belongs to an assignment that is over."""
        for partition in partitions:
            self._ledger.ended(partition)

    def stop(self) -> None:
        """Let nobody in but this thread, and send nothing unasked; the sender has ended afterwards."""
        with self._turn:
            self._is_stopped = True
            self._closer = threading.get_ident()
            sender, self._sender = self._sender, None
            self._turn.notify_all()
            self._work.notify_all()
        if sender is not None:
            sender.join()

    # --- any thread -----------------------------------------------------------------------------------

    def ask(self, ask: Ask, *, will_flush: bool = False) -> None:
        """Have it committed soon; returns at once. With `will_flush` the caller sees to it right away."""
        with self._turn:
            if not self._asks:
                self._work.notify()
            self._add(ask, is_awaited=False)
            if self._sender is None and not self._is_stopped:
                self._sender = threading.Thread(target=self._run, name="ehkafka-commits", daemon=True)
                self._sender.start()
        if not will_flush:
            self.pump()

    def commit(self, ask: Ask) -> Answer:
        """Have it committed now, and return the broker's answer."""
        with self._turn:
            self._add(ask, is_awaited=True)
            request = self._take_turn(ask)
        if request is not None:
            self._send(request)
        assert ask.answer is not None
        return ask.answer

    def acknowledged(self, partition: TopicPartition) -> int | None:
        """Return the next_offset that the broker has stored for this consumer, None if it stored none."""
        known = self._ledger.acknowledged(partition)
        return None if known is None else known.next_offset

    def _add(self, ask: Ask, *, is_awaited: bool) -> None:
        me = threading.get_ident()
        if self._closer not in {None, me}:
            raise RuntimeError("Consumer closed")  # as confluent-kafka says it
        self.is_shared |= self._last_poller not in {None, me}
        self._asks.add(ask, is_awaited=is_awaited)

    def _take_turn(self, ask: Ask) -> Request | None:
        """Wait until nobody is inside; return the request to send, None if somebody else has sent it."""
        self._waiting_threads += 1
        is_late = False
        try:
            while ask.answer is None:
                is_away = self._in_flight is not None and ask in self._in_flight.asks
                # The polling thread sent it and has been away since: only its polling brings the answer.
                if (not is_away or is_late) and self._may_enter():
                    return self._begin(Request(dict(ask.positions), [ask]) if is_away else None)
                is_late = not self._turn.wait(BUSY_S) and self._poller is None
        finally:
            self._waiting_threads -= 1
        return None

    def _may_enter(self) -> bool:
        """Take the consumer for sending, unless somebody else is inside. Caller has the lock."""
        if self._is_sending or self._closer not in {None, threading.get_ident()}:
            return False
        self._is_sending = True
        if self._poller in {None, threading.get_ident()}:
            return True
        self._is_sending = False
        self._turn.notify_all()  # a poller may have seen it
        return False

    def _let_others_out(self) -> None:
        """Wait until nobody else sends."""
        me = threading.get_ident()
        while self._is_sending:
            self._poller = None
            with self._turn:
                while self._is_sending:
                    self._turn.wait()
            self._poller = me

    def _is_due(self) -> bool:
        if self._is_sending or self._in_flight is not None or not self._asks:
            return False
        return self._waiting_threads > 0 or self._pace_allows()

    def _pace_allows(self) -> bool:
        return self._clock() >= self._ledger.next_due_s()

    def _begin(self, request: Request | None = None) -> Request:
        self._is_sending = True
        request = self._asks.take() if request is None else request
        self._look_at_marks(request)
        self._sent += 1
        # Each request is news to the ledger, also one that repeats a position or goes back.
        for partition, position in request.positions.items():
            self._ledger.assigned(partition, self._sent, None)
            request.positions[partition] = position._replace(epoch=self._sent)
        return request

    def _look_at_marks(self, request: Request) -> None:
        for partition in [p for p, position in request.positions.items() if position is AS_MARKED]:
            position, known = self._marked(partition), self._ledger.acknowledged(partition)
            if position is not None and (known is None or known.next_offset != position.next_offset):
                request.positions[partition] = position
                continue
            del request.positions[partition]
            if position is not None:
                request.unmoved[partition] = position

    def _send(self, request: Request) -> None:
        """Send and wait."""
        error: KafkaError | None = _interrupted()
        partitions: Sequence[KafkaPartition] = ()
        try:
            if request.positions:
                error, partitions = self._committer.commit_once(self._consumer, request.positions)
            else:
                error = None
        finally:
            self._land(request, error, partitions)

    def _send_off(self, request: Request) -> None:
        """Send; the answer comes to `on_commit`."""
        error: KafkaError | None = _interrupted()
        is_away = False
        try:
            error = self._committer.send(self._consumer, request.positions, 0)
            is_away = error is None and bool(request.positions)
        finally:
            if is_away:
                with self._turn:
                    self._in_flight, self._is_sending = request, False
                    self._turn.notify_all()
            else:
                self._land(request, error, ())

    def _land(self, request: Request, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        with self._turn:
            if request is self._in_flight:
                self._in_flight = None
            else:
                self._is_sending = False
            request.answer(error, partitions)
            self._tell(request.asks)
            self._turn.notify_all()

    def _tell(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            if ask.is_told:
                assert ask.answer is not None
                self.answers.append(_plain(ask.answer))

    # --- the sender -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while (request := self._next()) is not None:
            try:
                self._send(request)
            except Exception:
                # Who asked was answered; the next ones must still be sent.
                logging.getLogger("ehkafka.consumer").exception("A commit failed. Please report it.")

    def _next(self) -> Request | None:
        """Wait until something waits and the program does not poll; None: it is time to end."""
        with self._turn:
            polls = -1
            while not self._is_stopped:
                is_busy = polls == self._polls and self._poller is None
                if is_busy and self._asks and self._pace_allows() and self._may_enter():
                    return self._begin()
                polls = self._polls
                self._work.wait(BUSY_S if self._asks else None)
            return None


def _interrupted() -> KafkaError:
    return KafkaError(KafkaError._FAIL, "the commit was interrupted")  # noqa: SLF001 - librdkafka's own


def _plain(answer: Answer) -> Answer:
    """Return an answer as `on_commit` gets it: without the words that exceptions put before."""
    error, partitions = answer
    return None if error is None else KafkaError(error.code()), partitions
