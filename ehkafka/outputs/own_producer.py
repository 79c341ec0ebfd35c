"""What `app.producer` sends in one run: the sender of outputs with its own client, on `ehkafka-producer`.

A message, unlike an output, belongs to no record: only its future waits for it. So a refused message fails
its future, and a message times out: the sender then drops it as it drops outputs of ended epochs. The first
message starts the thread, which opens the client.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.errors import NotDeliveredError, describe
from ehkafka.events import MessageNotDelivered
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.encoding import checked_partition, checked_size, encoded, encoded_headers, encoded_key
from ehkafka.outputs.one_producer import ALONE, producer_of
from ehkafka.outputs.output import OutputRefusedError, Source
from ehkafka.outputs.properties import check_producer, message_properties, message_timeout_s, output_bytes_max
from ehkafka.outputs.sender import OutputSender
from ehkafka.outputs.unacknowledged import NotSentError, Unacknowledged
from ehkafka.settings import check_timeout
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.settings import Settings


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where the broker has written a message."""

    topic: str
    partition: int
    offset: int


class Answered(Future[Delivered]):
    """The future of a message, which cannot be called back."""

    def cancel(self) -> bool:
        """Do nothing."""
        return False


class ProducerMessage(Source):
    """One message and its future. The sender calls it, on its thread."""

    __slots__ = ("_ends_s", "future", "is_answered", "owner", "parts", "size", "topic")
    takes_refusals = True

    def __init__(self, owner: OwnProducer, parts: tuple[Any, ...], size: int, ends_s: float) -> None:
        """`parts`: an output but for its first two places, of which one would be the message itself."""
        self.owner = owner
        self.parts = parts
        self.topic: str = parts[0]
        self.size = size
        self._ends_s = ends_s
        self.future = Answered()
        # The functions that its future calls have returned.
        self.is_answered = False

    def has_ended(self) -> bool:
        """Tell whether it has timed out."""
        return time.monotonic() >= self._ends_s

    def acknowledged(self, written: Any = None) -> None:
        """Answer the future."""
        self.owner.answer(self, Delivered(self.topic, written.partition(), written.offset()))

    def refused(self, error: OutputRefusedError) -> None:
        """Fail the future."""
        self.owner.fail(self, str(error))

    def gone(self) -> None:
        """Fail the future: it has timed out."""
        self.owner.fail(self, f"it timed out (message.timeout.ms): {self.owner.reason}")


class OwnProducer:
    """The app calls `open` and `close`. Any thread sends."""

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
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        # The messages without an answer, in the order in which they were sent; removed under the lock. All
        # have the same time-out, so the first one times out first.
        self._unanswered: deque[ProducerMessage] = deque()
        self.is_open = self._has_sent = False
        # The topics of all messages so far.
        self.topics: set[str] = set()
        self._outputs = Unacknowledged()
        self._sender = OutputSender(
            self._outputs,
            self._producer({}),
            partial(self._producer, ALONE),
            emit=self._report,
            on_death=self._died,
            busy=busy_codes(is_event_hubs=endpoint.is_event_hubs),
            # Each message has a report, which tells where it is written.
            at_once=False,
            each_turn=self._drop_late,
            name="ehkafka-producer",
        )

    def open(self) -> None:
        """Accept messages: from `on_start` on."""
        self.is_open = True

    def close(self, timeout_s: float) -> None:
        """Take no more messages; deliver the others within so many seconds, and fail the rest."""
        with self._lock:
            self.is_open = False
        self._sender.stop(timeout_s)
        self._fail_all("the app has ended")

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return self._sender.owns(thread)

    @property
    def reason(self) -> str:
        """Why messages have no answer, as far as that is known. Any thread."""
        return self._sender.reason or "the broker took nothing more"

    @property
    def problem(self) -> str | None:
        """What is wrong, while messages wait for it. Any thread."""
        problem, count = self._sender.reason, self._outputs.count()
        text = f"The broker has not acknowledged {count} messages of app.producer: {problem}"
        return text if problem and count else None

    def count(self) -> int | None:
        """Return how many messages have no answer; None if none was ever sent."""
        return self._outputs.count() if self._has_sent else None

    def message(
        self, topic: object, value: object, *, key: object, headers: object, partition: object
    ) -> ProducerMessage:
        """Return a message. Raises `TypeError` or `ValueError` for what cannot be sent."""
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"send: topic={topic!r:.80}: give the name of a topic")
        number = checked_partition(partition)
        data, content_type = encoded(value)
        its_key, pairs = encoded_key(key), encoded_headers(headers, content_type)
        size = checked_size("a message", topic, data, its_key, pairs, self._bytes_max)
        ends_s = time.monotonic() + self._timeout_s
        return ProducerMessage(self, (topic, data, its_key, pairs, number), size, ends_s)

    def take(self, message: ProducerMessage, *, waits: bool) -> bool:
        """Take a message; False: there is no room.

        Raises `NotDeliveredError` after the end, and for a message that has timed out.
        """
        topic = message.topic
        if topic not in self.topics:
            self._endpoint.prepare_topics([topic])
            self.topics.add(topic)
        if not self._has_sent:
            self._start()
        if not self._outputs.has_room():
            # A function that a future calls never waits: it runs on the only thread that makes room.
            may_wait = waits and not self.owns(threading.current_thread())
            if not (may_wait and self._outputs.wait_for_room(message)):
                if self._outputs.is_closed or message.has_ended():
                    raise self._not_sent(topic)
                return False
        self._unanswered.append(message)
        try:
            # No origin decides on it: the message itself takes refusals.
            self._outputs.put(message, (None, message, *message.parts), message.size, waits=False)
        except NotSentError:
            message.is_answered = True
            self._drop_answered()
            raise self._not_sent(topic) from None
        return True

    def _not_sent(self, topic: str) -> NotDeliveredError:
        why = ": the app has ended."
        if not self._outputs.is_closed:
            why = f" within message.timeout.ms: {self._outputs.count()} messages wait for the broker."
        return NotDeliveredError(f"A message to {topic!r} was not sent{why}")

    def no_room(self, topic: str) -> NotDeliveredError:
        """Return the error for a message that found no room."""
        return NotDeliveredError(
            f"A message to {topic!r} was not sent: {self._outputs.count()} messages wait for the broker. "
            "Send the message again later, or use `await app.producer.asend(…)`, which waits."
        )

    def flush(self, timeout_s: float | None) -> int:
        """Wait for all messages so far; return how many have no answer. Raises `ConfigurationError`."""
        check_timeout(timeout_s, "flush")
        if self.owns(threading.current_thread()):
            return self._outputs.count()  # it would wait for itself
        with self._lock:
            left = list(self._unanswered)  # in one call: other threads send meanwhile
            wait_s = self._timeout_s if timeout_s is None else timeout_s
            self._answered.wait_for(lambda: not left or left[-1] not in self._unanswered, wait_s)
            return sum(not one.is_answered for one in left)

    def answer(self, message: ProducerMessage, result: Delivered | NotDeliveredError) -> None:
        """Answer a message's future, which calls functions of the user."""
        try:
            if isinstance(result, Delivered):
                message.future.set_result(result)
            else:
                message.future.set_exception(result)
        except InvalidStateError:
            return  # the end has failed it, and its report is late
        message.is_answered = True

    def fail(self, message: ProducerMessage, reason: str) -> None:
        """Report a message that is not delivered, and fail its future."""
        topic = message.topic
        text = f"A message of app.producer to {topic!r} was not delivered: {ended(reason)}"
        # Reported first: a thread that waits for the future may end the program.
        self._report(MessageNotDelivered(topic, reason))
        self.answer(message, NotDeliveredError(f"{text} If the message is still needed, send it again."))

    def _drop_answered(self) -> ProducerMessage | None:
        """Drop the messages that are answered, up to the first one without an answer; return that one."""
        with self._lock:
            while self._unanswered and self._unanswered[0].is_answered:
                self._unanswered.popleft()
            self._answered.notify_all()
            return self._unanswered[0] if self._unanswered else None

    def _start(self) -> None:
        with self._lock:
            if not self._has_sent and self.is_open:
                message_properties(self._endpoint, self._settings)  # what is refused is raised here
                self._sender.start(None)
                self._has_sent = True

    def _producer(self, more: Mapping[str, object]) -> OneProducer:
        return producer_of(
            lambda: {**message_properties(self._endpoint, self._settings), **more},
            self._endpoint.credential,
            emit=self._report,
            of="messages of app.producer",
        )

    def _drop_late(self) -> None:
        """Drop answered messages; have the sender drop those that have timed out. In each of its turns."""
        first = self._drop_answered()
        if first is not None and first.has_ended() and not first.future.done():
            self._sender.end(0.0)

    def _died(self, error: BaseException) -> None:
        # Otherwise futures would wait without end, and the app would not know.
        self._outputs.close()
        self._fail_all(f"app.producer has failed: {describe(error)}")
        self._on_death(error)

    def _fail_all(self, why: str) -> None:
        with self._lock:
            left = [one for one in list(self._unanswered) if not one.future.done()]
        for message in left:
            self.fail(message, f"{ended(why)} The message may or may not have been written")
        self._drop_answered()

    def _report(self, event: Event) -> None:
        self._emit(event)
        if not self.is_open and event.level >= logging.WARNING:
            # The run's telemetry has ended: it counts, but does not log.
            logging.getLogger("ehkafka").log(event.level, event.sentence())
