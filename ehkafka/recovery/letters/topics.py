"""`TopicLetters` writes dead letters to topics, on a thread of its own.

One idempotent producer for all handlers of an app. A letter's record is answered only when the broker has
acknowledged the letter; a write that fails is retried for as long as the app runs, by another producer
where this one is of no use any more (`producer`), and only a letter that no broker would ever take is
returned, to be held. It never blocks whoever posts, and never drops.

A key's letters keep their order: one is posted, and the next when that one is answered. Letters are
written at least once: one that was written, but whose record was not committed before a crash, a revoke or a
producer that had to be replaced, is written again.
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
from ehkafka.endpoint.properties.layers import LETTER_BYTES
from ehkafka.errors import EhkafkaError, describe
from ehkafka.events import DeadLetterFailed
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.order import describe_key
from ehkafka.outputs.one_producer import ID_S
from ehkafka.recovery.letters.answer import answer_safe
from ehkafka.recovery.letters.letter import shorter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.recovery.letters.letter import Letter

    Complete = Callable[[Ticket, Answer], None]

# While letters are on their way: how long a new one may wait for the producer's next turn.
BUSY_POLL_S = 10e-3
IDLE_WAIT_S = 0.5
EXIT_S = 0.1
RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE}
# Nobody will ever take these, however often they are sent.
_REFUSED = {
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_ARG,  # noqa: SLF001 - librdkafka's own codes start with an underscore
}
# Taken back from a producer that was given up.
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001

TOO_LARGE_ADVICE = (
    f"if the service takes larger records (a Dedicated namespace does), raise the property {LETTER_BYTES}: "
    f"App(consumer={{{LETTER_BYTES!r}: …}})"
)


class Posting(NamedTuple):
    """A letter on its way: whose, where to, and how often it was sent."""

    ticket: Ticket
    letter: Letter
    to: str
    complete: Complete
    tries: int = 0
    in_history: bool = True


class TopicLetters:
    """Owns the producer. `post` from any thread; everything else happens on the letters' thread."""

    def __init__(
        self,
        producer: OneProducer,
        *,
        emit: Callable[[Event], None],
        history: History | None = None,
        on_death: Callable[[BaseException], None] = lambda _error: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._emit = emit
        self._history = history
        self._on_death = on_death
        # By which letters are sent again; the producer, and the end, go by the client library's time.
        self._clock = clock
        # Appended to by any thread.
        self._inbox: deque[Posting] = deque()
        self._wake = threading.Event()
        # Set once, by `stop`: when nothing more is waited for.
        self._ends_s: float | None = None
        # The letters' thread only, from `start` on.
        self._later: list[tuple[float, int, Posting]] = []
        self._serial = itertools.count()
        self._in_flight: dict[int, Posting] = {}
        self._thread = threading.Thread(target=self._main, name="ehkafka-letters", daemon=True)

    def sender(self, to: str, complete: Complete, *, in_history: bool = True) -> TopicSender:
        """Return where one handler posts its letters for a topic; `complete` is its hub's `answer`."""
        return TopicSender(self, to, complete, in_history=in_history)

    def start(self, id_s: float = ID_S) -> None:
        """Open the producer, wait up to `id_s` for its id, start the thread.

        Raises `ConfigurationError` for what the client library refuses, `EndpointError` for what the broker
        does.
        """
        self._producer.start(id_s)
        self._thread.start()

    @property
    def problem(self) -> str:
        """Why nothing is acknowledged, as far as the producer knows. From any thread."""
        return self._producer.problem or "the broker has not answered"

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that writes letters."""
        return thread is self._thread

    def stop(self, timeout_s: float) -> int:
        """Stop, at most after `timeout_s` seconds; return how many letters are not acknowledged."""
        self._ends_s = time.monotonic() + timeout_s
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s + BUSY_POLL_S)
        return len(self._in_flight) + len(self._inbox) + len(self._later)

    def post(self, posting: Posting) -> None:
        """Take a letter. Never blocks."""
        self._inbox.append(posting)
        self._wake.set()

    def wake(self) -> None:
        """See whether a letter is due: the time has jumped. Any thread."""
        self._wake.set()

    def _main(self) -> None:
        try:
            while not self._is_over():
                self._turn()
        except BaseException as error:  # the letters' records would wait for ever, and nobody would know
            self._on_death(error)
        finally:
            self._producer.give_up(0.0, EXIT_S)

    def _is_over(self) -> bool:
        return self._ends_s is not None and (not self._in_flight or time.monotonic() >= self._ends_s)

    def _turn(self) -> None:
        producer = self._producer
        self._take_due()
        if producer.is_lost:
            self._replace_producer()
        if producer.client is None:
            self._open_next()
        while producer.client is not None and self._inbox and self._ends_s is None:
            self._send(self._inbox.popleft())
        producer.serve(BUSY_POLL_S if self._in_flight else 0.0)
        if not self._in_flight and not producer.is_lost:
            self._wake.wait(self._patience_s())
            self._wake.clear()

    def _replace_producer(self) -> None:
        """Give the producer up; what it did not answer is sent by the next one, before all that is new."""
        self._producer.replace()
        # What no callback returned. Answers that come later find nothing.
        self._inbox.extendleft(reversed(self._in_flight.values()))
        self._in_flight.clear()

    def _open_next(self) -> None:
        try:
            self._producer.open_when_due()
        except EhkafkaError as failed:
            if self._inbox:
                self._report(self._inbox[0], str(failed), self._producer.due_s())

    def _take_due(self) -> None:
        now_s = self._clock()
        while self._later and self._later[0][0] <= now_s:
            self._inbox.append(heapq.heappop(self._later)[2])

    def _patience_s(self) -> float:
        if self._producer.client is None:
            return min(IDLE_WAIT_S, self._producer.due_s())
        if not self._later:
            return IDLE_WAIT_S
        return max(0.0, min(IDLE_WAIT_S, self._later[0][0] - self._clock()))

    def _send(self, posting: Posting) -> None:
        if posting.ticket.attempt.epoch.ended:
            # Another member has the record now and decides on it; here the answer is stale.
            posting.complete(posting.ticket, HoldHead("its partition was taken away"))
            return
        number = next(self._serial)
        letter, client = posting.letter, self._producer.client
        assert client is not None
        try:
            client.produce(
                posting.to,
                letter.value,
                letter.key,
                headers=list(letter.headers),
                on_delivery=lambda error, _message: self._delivered(number, error),
            )
        except BufferError:
            self._retry(posting, "the producer's queue is full")
        except KafkaException as failed:
            self._failed(posting, failed.args[0])
        except Exception as failed:  # a handler may have put anything into its record's message
            self._refuse(posting, describe(failed))
        else:
            self._in_flight[number] = posting

    def _delivered(self, number: int, error: KafkaError | None) -> None:
        posting = self._in_flight.pop(number, None)
        if posting is None:
            return  # given up with its producer, and sent by another
        if error is not None:
            if error.code() not in _PURGED:
                self._producer.reported()
            self._failed(posting, error)
            return
        self._producer.acknowledged()
        answer_safe(
            posting.ticket,
            posting.letter,
            posting.to,
            complete=posting.complete,
            emit=self._emit,
            history=self._history if posting.in_history else None,
        )

    def _failed(self, posting: Posting, error: KafkaError) -> None:
        if error.code() in _PURGED:
            self._inbox.append(posting)
        elif error.code() in _TOO_LARGE:
            self._cut_down(posting, error)
        elif error.code() in _REFUSED:
            self._refuse(posting, describe_error(error))
        else:
            self._producer.failed(error)
            self._retry(posting, describe_error(error))

    def _cut_down(self, posting: Posting, error: KafkaError) -> None:
        """Send a letter that is too large with less of its error's text, else refuse it."""
        if (letter := shorter(posting.letter)) is not None:
            self._inbox.appendleft(posting._replace(letter=letter))
        else:
            self._refuse(posting, f"{describe_error(error)}; {TOO_LARGE_ADVICE}")

    def _refuse(self, posting: Posting, error: str) -> None:
        refused = f"its dead letter is refused by {posting.to}: {error}"
        self._report(posting, refused, None)
        posting.complete(posting.ticket, HoldHead(refused, letter_refused=True))

    def _retry(self, posting: Posting, error: str) -> None:
        delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(posting.tries, 10))
        self._report(posting, error, delay_s)
        again = posting._replace(tries=posting.tries + 1)
        heapq.heappush(self._later, (self._clock() + delay_s, next(self._serial), again))

    def _report(self, posting: Posting, error: str, retry_s: float | None) -> None:
        origin, offset = posting.letter.origin, posting.letter.offset
        key = describe_key(posting.ticket.attempt.key)
        self._emit(DeadLetterFailed(origin, offset, key, posting.to, error, retry_s))


class TopicSender:
    """One handler's way to one dead-letter topic."""

    def __init__(self, topics: TopicLetters, to: str, complete: Complete, *, in_history: bool = True) -> None:
        self._topics = topics
        self._to = to
        self._complete = complete
        self._in_history = in_history

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        self._topics.post(Posting(ticket, letter, self._to, self._complete, in_history=self._in_history))
