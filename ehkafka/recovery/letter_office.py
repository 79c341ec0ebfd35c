"""The letter office: writes dead letters to topics, on a thread of its own.

One idempotent producer for all handlers of an app. A letter's record is answered only when the broker has
acknowledged the letter; a write that fails is tried again for as long as the app runs, and only a letter
that no broker would ever take is given back, to be held. It never blocks whoever posts, and never drops.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.events import DeadLetterFailed, RecordDeadLettered
from ehkafka.lanes.order import describe_key
from ehkafka.records import Outcome
from ehkafka.recovery.decision import HoldHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.events import Event
    from ehkafka.history import History
    from ehkafka.recovery.decision import Ticket, Verdict
    from ehkafka.recovery.letter import Letter

    Complete = Callable[[Ticket, Verdict], None]

# While letters are on their way: how long a new one may wait for the producer's next turn.
BUSY_POLL_S = 10e-3
IDLE_WAIT_S = 0.5
PURGE_S = 5.0
RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
# Nobody will ever take these, however often they are sent.
_REFUSED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_ARG,  # noqa: SLF001 - librdkafka's own codes start with an underscore
}


class Posting(NamedTuple):
    """A letter on its way: whose, where to, and how often it was sent."""

    ticket: Ticket
    letter: Letter
    to: str
    complete: Complete
    tries: int = 0


class LetterOffice:
    """Owns the producer. `post` from any thread; everything else happens on the office's thread."""

    def __init__(
        self,
        open_producer: Callable[[], Producer],
        *,
        emit: Callable[[Event], None],
        history: History | None = None,
    ) -> None:
        self._open_producer = open_producer
        self._emit = emit
        self._history = history
        self._inbox: deque[Posting] = deque()
        self._later: list[tuple[float, int, Posting]] = []
        self._serial = itertools.count()
        self._in_flight = 0
        self._wake = threading.Event()
        self._stopping = False
        self._broken = False
        self._producer: Producer | None = None
        self._thread = threading.Thread(target=self._run, name="ehkafka-letters", daemon=True)

    def box(self, to: str, complete: Complete) -> TopicBox:
        """Return where one handler posts its letters for a topic; `complete` is its exchange's."""
        return TopicBox(self, to, complete)

    def start(self) -> None:
        """Open the producer and start the thread. Raises `ConfigurationError` for what it refuses."""
        self._producer = self._open_producer()
        self._thread.start()

    def stop(self, timeout_s: float) -> int:
        """Stop, at most after `timeout_s` seconds; return how many letters are not acknowledged."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return self._in_flight + len(self._inbox) + len(self._later)

    def post(self, posting: Posting) -> None:
        """Take a letter. Never blocks."""
        self._inbox.append(posting)
        self._wake.set()

    def _run(self) -> None:
        while not (self._stopping and not self._in_flight):
            self._take_due()
            if self._broken:
                self._replace_producer()
            while self._inbox and not self._stopping:
                self._send(self._inbox.popleft())
            if self._in_flight and self._producer is not None:
                self._producer.poll(BUSY_POLL_S)
            else:
                self._wake.wait(self._patience_s())
                self._wake.clear()

    def _replace_producer(self) -> None:
        """Give up an idempotent producer that lost its place: it sends nothing more, a new one does."""
        if self._producer is not None:
            self._producer.purge()  # each letter in flight comes back by its callback, and is sent again
            self._producer.flush(PURGE_S)
        self._producer, self._in_flight, self._broken = None, 0, False

    def _take_due(self) -> None:
        now_s = time.monotonic()
        while self._later and self._later[0][0] <= now_s:
            self._inbox.append(heapq.heappop(self._later)[2])

    def _patience_s(self) -> float:
        if not self._later:
            return IDLE_WAIT_S
        return max(0.0, min(IDLE_WAIT_S, self._later[0][0] - time.monotonic()))

    def _send(self, posting: Posting) -> None:
        if posting.ticket.lane.assignment.ended:
            # Another member has the record now and decides on it; here the answer is stale.
            posting.complete(posting.ticket, HoldHead("its partition was taken away"))
            return
        letter = posting.letter
        try:
            if self._producer is None:
                self._producer = self._open_producer()
            self._producer.produce(
                posting.to,
                letter.value,
                letter.key,
                headers=list(letter.headers),
                on_delivery=lambda error, _message: self._delivered(posting, error),
            )
        except BufferError:
            self._retry(posting, "the producer's queue is full")
        except KafkaException as failed:
            self._failed(posting, failed.args[0])
        else:
            self._in_flight += 1

    def _delivered(self, posting: Posting, error: KafkaError | None) -> None:
        self._in_flight -= 1
        if error is not None:
            self._failed(posting, error)
            return
        origin, offset = posting.letter.origin, posting.letter.offset
        lane = posting.ticket.lane
        if self._history is not None:
            self._history.dead_lettered(origin, offset)
            epoch, attempt = lane.assignment.epoch, lane.attempts + 1
            self._history.finished(origin, epoch, offset, lane.key, attempt, Outcome.DEAD_LETTERED.value)
        self._emit(RecordDeadLettered(origin, offset, describe_key(lane.key), posting.to))
        posting.complete(posting.ticket, Outcome.DEAD_LETTERED)

    def _failed(self, posting: Posting, error: KafkaError) -> None:
        if error.code() in _REFUSED:
            said = f"its dead letter is refused by {posting.to}: {describe_error(error)}"
            self._tell(posting, said, None)
            posting.complete(posting.ticket, HoldHead(said))
            return
        self._broken |= error.fatal()
        self._retry(posting, describe_error(error))

    def _retry(self, posting: Posting, error: str) -> None:
        delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(posting.tries, 10))
        self._tell(posting, error, delay_s)
        again = posting._replace(tries=posting.tries + 1)
        heapq.heappush(self._later, (time.monotonic() + delay_s, next(self._serial), again))

    def _tell(self, posting: Posting, error: str, retry_s: float | None) -> None:
        origin, offset = posting.letter.origin, posting.letter.offset
        key = describe_key(posting.ticket.lane.key)
        self._emit(DeadLetterFailed(origin, offset, key, posting.to, error, retry_s))


class TopicBox:
    """One handler's way to one dead-letter topic."""

    def __init__(self, office: LetterOffice, to: str, complete: Complete) -> None:
        self._office = office
        self._to = to
        self._complete = complete

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        self._office.post(Posting(ticket, letter, self._to, self._complete))
