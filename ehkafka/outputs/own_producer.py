"""The client behind `app.producer`, in one run: it sends `Messages` on `ehkafka-producer`.

A message, unlike an output, belongs to no record: only its future waits for it. So it may time out, and if it
is refused, its future fails while the others are sent. A client ends with the first message that is refused.
The next one gets all messages without an answer, in their order: otherwise messages that the first client has
ready would be written before one that is refused for now. The first message starts client and thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from ehkafka.endpoint.client import describe_error, open_producer
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.properties.layers import without_ids
from ehkafka.errors import NotDeliveredError, describe
from ehkafka.events import ConnectionProblem, MessageNotDelivered, MessageProblem, MessageProducerReplaced
from ehkafka.outputs.answers import CONSEQUENCES, IN_DOUBT, TAKEN_BACK, busy_codes
from ehkafka.outputs.encoding import checked_partition, checked_size, encoded, encoded_headers, encoded_key
from ehkafka.outputs.known_keys import KnownKeys
from ehkafka.outputs.messages import Delivered, Message, Messages
from ehkafka.outputs.one_producer import LAST_ANSWERS_S, OneProducer
from ehkafka.outputs.output import Output, OutputRefusedError, Source
from ehkafka.outputs.produce import QUEUE_FULL, produce_one
from ehkafka.outputs.properties import check_producer, message_properties, message_timeout_s, output_bytes_max
from ehkafka.settings import check_timeout
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.settings import Settings

# The longest sleep of the thread: while messages have no answer, while there is no client, and while there is
# no message.
BUSY_S: Final = 2e-3
CLOSED_S: Final = 50e-3
IDLE_S: Final = 0.5
# The last producer gets this time to return its messages.
EXIT_S: Final = 0.1
_TIMED_OUT: Final = KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - librdkafka's own


class OwnProducer:
    """The app calls `open` and `close`; `_main` and all below it run on the thread `ehkafka-producer`."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
    ) -> None:
        if settings.producer:
            check_producer(endpoint, settings)
        self._endpoint = endpoint
        self._settings = settings
        self._emit = emit
        self._on_death = on_death
        self._timeout_s = message_timeout_s(settings)
        self._bytes_max = output_bytes_max(endpoint, settings)
        self._messages = Messages()
        self._lock = threading.Lock()
        # Under the lock; the thread is set once.
        self._thread: threading.Thread | None = None
        self.is_open = False
        # Set once, by `close`: when the thread ends.
        self._ends_s: float | None = None
        # The topics of all messages so far.
        self.topics: set[str] = set()
        self._producer = self._one_producer()
        # An answer was not about its message: the next producer sends it again, at once or after a wait.
        self._is_passed_on = self._is_in_doubt = False
        self._is_throttled = False
        # The broker has refused a message, with which a client ends: no fault of its producer.
        self._is_refused = False
        self._known = KnownKeys()
        # Messages that wait for the first answer of their key, in order; whether some may be sent now.
        self._parked: deque[Message] = deque()
        self._unparks = False

    def open(self) -> None:
        """Accept messages: from `on_start` on."""
        self.is_open = True

    def close(self, timeout_s: float) -> None:
        """Take no more messages; deliver the others within so many seconds, and fail the rest."""
        with self._lock:
            self.is_open, thread = False, self._thread
        self._messages.close()  # first: no message is added after the thread has ended
        self._ends_s = time.monotonic() + timeout_s
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s + 1.0)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return thread is self._thread

    @property
    def problem(self) -> str | None:
        """What is wrong, while messages wait for it. From any thread."""
        problem, count = self._producer.problem, self._messages.count()
        return f"{count} messages of app.producer have no answer: {problem}" if problem and count else None

    def count(self) -> int | None:
        """Return how many messages have no answer; None if none was ever sent."""
        return None if self._thread is None else self._messages.count()

    def message(self, topic: Any, value: Any, *, key: Any, headers: Any, partition: Any) -> Message:
        """Return a message. Raises `TypeError` or `ValueError` for what cannot be sent."""
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"send: topic={topic!r:.80}: give the name of a topic")
        number = checked_partition(partition)
        data, content_type = encoded(value)
        its_key, pairs = encoded_key(key), encoded_headers(headers, content_type)
        size = checked_size("a message", topic, data, its_key, pairs, self._bytes_max)
        future: Future[Delivered] = Future()
        # So `cancel` does nothing: a message cannot be called back.
        future.set_running_or_notify_cancel()
        # Of no record and no handler.
        output = Output(None, Source(), topic, data, its_key, pairs, number)  # type: ignore[arg-type]
        return Message(output, size, time.monotonic() + self._timeout_s, future)

    def take(self, message: Message, *, waits: bool) -> bool:
        """Take a message; False: there is no room. Raises `NotDeliveredError` after the end."""
        if message.topic not in self.topics:
            self._endpoint.prepare_topics([message.topic])
            self.topics.add(message.topic)
        if self._thread is None:
            self._start()
        # A callback of a future never waits: it runs on the only thread that makes room.
        may_wait = waits and not self.owns(threading.current_thread())
        return self._messages.add(message, message.ends_s - time.monotonic() if may_wait else 0.0)

    def no_room(self, topic: str) -> NotDeliveredError:
        """Return the error for a message that found no room."""
        return self._messages.no_room(topic)

    def flush(self, timeout_s: float | None) -> int:
        """Wait for all messages so far; return how many have no answer. Raises `ConfigurationError`."""
        check_timeout(timeout_s, "flush")
        if self.owns(threading.current_thread()):
            return self._messages.count()  # it would wait for itself
        return self._messages.wait(self._timeout_s if timeout_s is None else timeout_s)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and self.is_open:
                message_properties(self._endpoint, self._settings)  # what is refused is raised here
                thread = threading.Thread(target=self._main, name="ehkafka-producer", daemon=True)
                thread.start()
                self._thread = thread

    def _one_producer(self) -> OneProducer:
        # Anew for each producer: the key may have changed since.
        def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
            properties = message_properties(self._endpoint, self._settings)
            return open_producer(without_ids(properties) if is_plain else properties, **callbacks._asdict())

        return OneProducer(
            open_client,
            emit=self._report,
            make_watch=lambda: CredentialWatch(self._endpoint.credential, self._report),
            of="messages of app.producer",
            replaced=MessageProducerReplaced,
            not_opened=MessageProblem,
            plain=_plain,
        )

    def _main(self) -> None:
        why = "the app has ended"
        try:
            while self._ends_s is None or (self._messages.count() and time.monotonic() < self._ends_s):
                self._turn()
        except BaseException as error:  # otherwise futures would wait without end, and the app would not know
            why = f"app.producer has failed: {describe(error)}"
            self._messages.close()
            self._on_death(error)
        finally:
            self._producer.give_up(0.0, EXIT_S)
            self._messages.take_back()
            for message in self._messages.queue:
                self._fail(message, f"{ended(why)} Whether it was written is not known")
            self._messages.release()

    def _turn(self) -> None:
        producer = self._producer
        if not self._messages.count():
            self._known.forget()  # as a broker does, after a day
        self._messages.rest(IDLE_S)
        if self._is_passed_on or producer.is_lost:
            self._renew()
        producer.open_when_due()
        self._fail_late()
        if producer.client is None:
            time.sleep(min(CLOSED_S, producer.due_s()))
        else:
            self._hand_over(producer.client)
            producer.serve(BUSY_S if self._messages.count() else 0.0)
        self._messages.release()

    def _renew(self) -> None:
        """Close the producer; the next one gets all messages without an answer, before any new one."""
        # First: its last answers may explain more.
        self._producer.give_up(LAST_ANSWERS_S)
        self._producer.renew(is_fault=not self._is_refused, waits=self._is_throttled)
        self._is_passed_on = self._is_throttled = self._is_refused = self._is_in_doubt = False
        self._known.forget()
        self._parked.clear()
        self._messages.take_back()

    def _fail_late(self) -> None:
        """Fail messages that have timed out before a client took them; the client has the same time-out."""
        now_s = time.monotonic()
        for waiting in (self._parked, self._messages.queue):
            while waiting and waiting[0].ends_s <= now_s:
                why = self._producer.problem or "the broker took nothing more"
                self._fail(waiting.popleft(), f"it timed out (message.timeout.ms): {why}")

    def _hand_over(self, client: Any) -> None:
        """Hand over messages: only one of a key until that is acknowledged (see `known_keys`)."""
        queue = self._messages.queue
        if self._unparks:
            queue.extendleft(reversed(self._parked))
            self._parked.clear()
            self._unparks = False
        for _ in range(len(queue)):  # and no more: a full client makes room by answers
            one = queue.popleft()
            if not self._known.may_go(one.output):
                self._parked.append(one)
                continue
            error = produce_one(client, *one.output[2:], partial(self._answered, one))
            if isinstance(error, KafkaError) and error.code() == QUEUE_FULL:
                self._known.acknowledged(one.output, None)  # else its key would wait without end
                queue.appendleft(one)
                return  # answers make room
            if error is not None:
                self._refused(one, error)
            if self._is_passed_on:
                return

    def _answered(self, message: Message, error: KafkaError | None, written: Any) -> None:
        """Take the broker's answer. Called by librdkafka inside `poll`."""
        if error is None and (self._is_in_doubt or written.offset() is None):
            # See the sender's `_reported`. The future waits for an answer that says where it is written.
            self._is_in_doubt = True
            self._refused(message, KafkaError(KafkaError._FATAL, IN_DOUBT))  # noqa: SLF001 - librdkafka's
        elif error is None:
            if self._known.is_first(message.output):
                # Without producer ids nothing keeps the order of two: each is its key's first one.
                partition = None if self._producer.is_plain else written.partition()
                self._known.acknowledged(message.output, partition)
                if self._known.is_full:
                    self._known.forget_half()
                self._unparks = True
            self._producer.acknowledged()
            self._messages.answer(message, Delivered(message.topic, written.partition(), written.offset()))
        elif error.code() not in TAKEN_BACK:
            self._producer.reported()
            self._refused(message, error)

    def _refused(self, message: Message, error: KafkaError | OutputRefusedError) -> None:
        self._known.acknowledged(message.output, None)
        self._unparks = True
        if isinstance(error, OutputRefusedError):
            self._fail(message, str(error))
        elif error.code() in CONSEQUENCES:
            if self._producer.client is not None:  # else it is closed already
                self._producer.failed(error)
                self._is_passed_on = True
        elif error.code() in busy_codes(is_event_hubs=self._endpoint.is_event_hubs):
            self._producer.failed(error)
            self._is_passed_on = self._is_throttled = True
        else:
            self._is_refused |= error.code() != _TIMED_OUT
            self._fail(message, describe_error(error))

    def _fail(self, message: Message, reason: str) -> None:
        text = f"A message of app.producer to {message.topic!r} was not delivered: {ended(reason)}"
        # Reported first: a thread that waits for the future may end the program.
        self._report(MessageNotDelivered(message.topic, reason))
        self._messages.answer(message, NotDeliveredError(f"{text} Send it again if it is still needed."))

    def _report(self, event: Event) -> None:
        self._emit(event)
        if not self.is_open and event.level >= logging.WARNING:
            # The run's telemetry has ended: it counts, but does not log.
            logging.getLogger("ehkafka").log(event.level, event.sentence())


def _plain(error: str) -> Event:
    text = f"app.producer: the broker has no producer ids, so a retry may write a message twice ({error})"
    return ConnectionProblem("producer id", text, fatal=False)
