"""What sends the messages of `app.producer` in one run: opened at the first one, closed behind `on_stop`.

An app that never sends any has no client and no thread of it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.events import ConnectionProblem, MessageProducerReplaced
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.checked import checked_partition
from ehkafka.outputs.encoding import checked_size, encoded, encoded_headers, encoded_key
from ehkafka.outputs.message_sender import MessageSender
from ehkafka.outputs.messages import Message, Messages
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.properties import check_producer, message_properties, message_timeout_s, output_bytes_max
from ehkafka.settings import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.run.options import AppOptions


class OwnProducer:
    """One run's. `open` and `close` by whoever starts and stops the app; the rest from any thread."""

    def __init__(
        self, app: AppOptions, *, emit: Callable[[Event], None], on_death: Callable[[BaseException], None]
    ) -> None:
        self._app = app
        self._emit = emit
        self._on_death = on_death
        if app.settings.producer:
            check_producer(app.endpoint, app.settings)
        self._messages = Messages()
        self._timeout_s = message_timeout_s(app.settings)
        self._bytes_max = output_bytes_max(app.endpoint, app.settings)
        self._lock = threading.Lock()
        # Under the lock, each set once.
        self._sender: MessageSender | None = None
        self.is_open = False
        # Topics that were sent to. Grows by what a program sends to.
        self.topics: set[str] = set()

    def open(self) -> None:
        """Let messages be sent: from `on_start` on."""
        self.is_open = True

    def close(self, timeout_s: float) -> None:
        """Deliver what there is, for at most so many seconds, and fail the rest. Then nothing is taken."""
        with self._lock:
            self.is_open, sender = False, self._sender
        self._messages.close()
        if sender is not None:
            sender.stop(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return self._sender is not None and self._sender.owns(thread)

    @property
    def problem(self) -> str | None:
        """What is wrong, while messages wait for it."""
        return None if self._sender is None else self._sender.problem

    def count(self) -> int | None:
        """Return how many messages have no answer; None where none was ever sent."""
        return None if self._sender is None else self._messages.count()

    def has_room(self) -> bool:
        """Tell whether a message is taken without a wait."""
        return self._messages.has_room()

    def message(self, topic: Any, value: Any, *, key: Any, headers: Any, partition: Any) -> Message:
        """Return a message. Raises `TypeError` or `ValueError` for what cannot be sent."""
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"send: topic={topic!r:.80}: give the name of a topic")
        number = checked_partition(partition)
        data, content_type = encoded(value)
        its_key, pairs = encoded_key(key), encoded_headers(headers, content_type)
        size = checked_size("a message", topic, data, its_key, pairs, self._bytes_max)
        ends_s = time.monotonic() + self._timeout_s
        return Message(topic, data, its_key, pairs, number, size, ends_s)

    def post(self, message: Message, *, waits: bool) -> None:
        """Take a message; opens the producer for the first one. Raises `NotDeliveredError`."""
        if message.topic not in self.topics:
            self._app.endpoint.prepare_topics([message.topic])
            self.topics.add(message.topic)
        if self._sender is None:
            self._start()
        is_own = self.owns(threading.current_thread())  # a future's callback: only this thread makes room
        self._messages.add(message, waits=waits and not is_own)

    def flush(self, timeout_s: float | None) -> int:
        """Wait for all that were posted; return how many have no answer. Raises `ConfigurationError`."""
        check_timeout(timeout_s, "flush")
        if self.owns(threading.current_thread()):
            return self._messages.count()  # it would wait for itself
        return self._messages.wait(self._timeout_s if timeout_s is None else timeout_s)

    def _start(self) -> None:
        with self._lock:
            if self._sender is not None or not self.is_open:
                return
            message_properties(self._app.endpoint, self._app.settings)  # what is refused is raised here
            sender = MessageSender(
                self._messages,
                self._producer(),
                emit=self._report,
                on_death=self._on_death,
                busy=busy_codes(is_event_hubs=self._app.endpoint.is_event_hubs),
            )
            sender.start()
            self._sender = sender

    def _producer(self) -> OneProducer:
        app = self._app

        # Anew for each producer: the key may have changed since.
        def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
            properties = message_properties(app.endpoint, app.settings, is_plain=is_plain)
            return open_producer(properties, **callbacks._asdict())

        return OneProducer(
            open_client,
            emit=self._report,
            make_watch=lambda: CredentialWatch(app.endpoint.credential, self._report),
            of="messages of app.producer",
            replaced=MessageProducerReplaced,
            plain=_plain,
        )

    def _report(self, event: Event) -> None:
        self._emit(event)
        if not self.is_open and event.level >= logging.WARNING:
            # The run's telemetry has ended, and only counts.
            logging.getLogger("ehkafka").log(event.level, event.sentence())


def _plain(error: str) -> Event:
    text = f"app.producer: the broker gives no producer ids, so a retry may write a message twice ({error})"
    return ConnectionProblem("producer id", text, fatal=False)
