"""Sends the messages of `app.producer`, on `ehkafka-producer`, and answers their futures.

Unlike an output, a message belongs to no record: nobody waits for it but its future. So it may time out, and
one that is refused is reported, and the others go on. The rest is as for outputs: a producer that is given up
is followed by another one, which gets all that is not answered, in its old order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, NotDeliveredError, describe
from ehkafka.events import MessageNotDelivered, MessageProblem
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK
from ehkafka.outputs.aside import BUSY_POLL_S
from ehkafka.outputs.messages import Delivered
from ehkafka.outputs.sender import IDLE_WAIT_S
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from confluent_kafka import KafkaError

    from ehkafka.events import Event
    from ehkafka.outputs.messages import Message, Messages
    from ehkafka.outputs.one_producer import OneProducer

LAST_ANSWERS_S = 2.0
EXIT_S = 0.1


class MessageSender:
    """Owns the producer. `start` and `stop` from other threads; all else happens on its own."""

    def __init__(
        self,
        messages: Messages,
        producer: OneProducer,
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        busy: Collection[int],
    ) -> None:
        """`busy` are errors by which the broker throttles."""
        self._messages = messages
        self._producer = producer
        self._emit = emit
        self._on_death = on_death
        self._busy = busy
        self._wake = threading.Event()
        # Set once, by `stop`: when nothing more is waited for.
        self._ends_s: float | None = None
        # The sender's thread only.
        self._queue: deque[Message] = deque()
        self._in_flight: set[Message] = set()
        self._is_throttled = False
        # Answers that come then say nothing of the next producer.
        self._gives_up = False
        self._thread = threading.Thread(target=self._main, name="ehkafka-producer", daemon=True)
        messages.wake = self._wake.set

    def start(self) -> None:
        """Start the thread, which opens the producer: whoever sends first does not wait for the broker."""
        self._thread.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return thread is self._thread

    @property
    def problem(self) -> str | None:
        """What is wrong, while messages wait for it. From any thread."""
        problem, count = self._producer.problem, self._messages.count()
        return f"{count} messages of app.producer have no answer: {problem}" if problem and count else None

    def stop(self, timeout_s: float) -> None:
        """Deliver what there is, for so long; what is left then has failed. Nothing more is taken."""
        self._messages.close()
        self._ends_s = time.monotonic() + timeout_s
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s + 1.0)

    def _main(self) -> None:
        why = "the app has ended"
        try:
            while self._ends_s is None or (self._messages.count() and time.monotonic() < self._ends_s):
                self._turn()
        except BaseException as error:  # futures would wait for ever, and nobody would know
            why = f"app.producer has failed: {describe(error)}"
            self._messages.close()
            self._on_death(error)
        finally:
            self._producer.give_up(0.0, EXIT_S)
            for message in self._messages.take_all():
                self._fail(message, f"{ended(why)} Whether it was written is not known")

    def _turn(self) -> None:
        producer = self._producer
        if producer.is_lost or self._is_throttled:
            self._renew()
        if producer.client is None:
            self._open_next()
        self._queue.extend(self._messages.take_new())
        self._let_go_of_late()
        if producer.client is not None:
            self._send()
        producer.serve(BUSY_POLL_S if self._in_flight else 0.0)
        if not (self._in_flight or producer.is_lost or self._is_throttled):
            self._messages.sleeps = True
            if not self._messages.has_new():
                self._wake.wait(self._patience_s())
            self._messages.sleeps = False
            self._wake.clear()

    def _patience_s(self) -> float:
        if self._ends_s is not None:
            return BUSY_POLL_S
        if self._producer.client is None:
            return min(IDLE_WAIT_S, self._producer.due_s())
        return BUSY_POLL_S if self._queue else IDLE_WAIT_S

    def _renew(self) -> None:
        """Give the producer up; what it did not answer is sent by the next one, before all that is new."""
        self._gives_up = True
        self._producer.give_up(LAST_ANSWERS_S)
        self._gives_up = False
        self._producer.renew(waits=self._is_throttled)
        self._is_throttled = False
        self._in_flight.clear()
        self._queue = deque(self._messages.take_all())

    def _open_next(self) -> None:
        try:
            self._producer.open_when_due()
        except EhkafkaError as failed:
            self._emit(MessageProblem(str(failed), self._producer.due_s()))

    def _send(self) -> None:
        queue, produce = self._queue, self._producer.client.produce
        while queue and not self._producer.is_lost:
            message = queue[0]
            answer = partial(self._answered, message)
            try:
                produce(
                    message.topic,
                    message.value,
                    message.key,
                    message.partition,
                    answer,
                    headers=message.headers,
                )
            except BufferError:
                return  # what is on its way makes room
            except KafkaException as failed:
                self._answered(message, failed.args[0], None)
            except Exception as failed:  # headers may hold anything
                self._fail(message, describe(failed))
            else:
                self._in_flight.add(message)
            queue.popleft()

    def _answered(self, message: Message, error: KafkaError | None, written: Any) -> None:
        """Take the broker's answer. Called by librdkafka inside `poll`, on the sender's thread."""
        self._in_flight.discard(message)
        if error is None:
            self._producer.acknowledged()
            where = Delivered(message.topic, written.partition(), written.offset())
            self._messages.settle(message, where)
        elif error.code() in CONSEQUENCES:
            # It says nothing of the message, which the next producer is given.
            if not (self._gives_up or error.code() in TAKEN_BACK):
                self._producer.failed(error)
        elif error.code() in self._busy:
            self._is_throttled = True
            self._producer.failed(error)
        else:
            self._fail(message, describe_error(error))

    def _let_go_of_late(self) -> None:
        """Fail what has waited too long without being with a producer, which has a time-out of its own."""
        now_s = time.monotonic()
        while self._queue and self._queue[0].ends_s <= now_s:
            why = self._producer.problem or "the broker took nothing more"
            self._fail(self._queue.popleft(), f"its time is over (message.timeout.ms): {why}")

    def _fail(self, message: Message, reason: str) -> None:
        text = f"A message of app.producer to {message.topic!r} was not delivered: {ended(reason)}"
        # Reported before it is answered: whoever waits for it may end the program.
        self._emit(MessageNotDelivered(message.topic, reason))
        self._messages.settle(message, NotDeliveredError(f"{text} Send it again, if it is still of use."))
