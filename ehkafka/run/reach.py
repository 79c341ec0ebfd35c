"""Reach: opens a run's consumer and waits for the broker's first answer.

In the thread that starts the app, so that a wrong address raises there. A signal may cut the wait for a token
or the broker short; then no client is left open.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaException

from ehkafka.endpoint.broker_errors import missing_topics, unreachable
from ehkafka.endpoint.client import describe_error, open_consumer
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.endpoint.properties.advice import consumer_advice
from ehkafka.errors import EndpointError
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.events import Event
    from ehkafka.positions.gap import LogBounds
    from ehkafka.run.options import AppOptions

T = TypeVar("T")

# A wait without end would keep signals from being handled on some platforms.
SLICE_S = 0.5


class Reach:
    """One start's way to the broker."""

    def __init__(self, app: AppOptions, emit: Callable[[Event], None]) -> None:
        self._app = app
        self._endpoint = app.endpoint
        self._settings = app.settings
        self._topics = set(app.topics)
        self._emit = emit
        # True while it waits for a token or the broker. Written by the starting thread, read by any.
        self.is_waiting = False
        # How many partitions each of the topics had when the broker answered.
        self.partitions: dict[str, int] = {}

    def properties(self, apps: int = 1) -> dict[str, Any]:
        """Return the consumer's, having reported what speaks against them. Raises `ConfigurationError`.

        `apps` are in this process, this one included.
        """
        properties = self._app.consumer_properties(apps)
        for advice in consumer_advice(self._endpoint, properties):
            self._emit(advice)
        return properties

    def open(
        self,
        properties: dict[str, Any],
        *,
        on_error: Callable[[Consumer, KafkaError], bool],
        on_commit: Callable[..., None],
        throttle_cb: Callable[..., None],
        stats_cb: Callable[[str], None] | None = None,
    ) -> Consumer:
        """Return a consumer that the broker has answered. Raises what is wrong.

        `on_error` gets the client's errors and says whether it took them; one that it left may explain
        why the broker gives no answer.
        """
        self._endpoint.prepare_topics(self._topics | self._app.letter_topics | self._app.output_topics)
        if (tokens := self._endpoint.tokens) is not None:
            self.wait(lambda: tokens.sign_in(self._settings.connect_s))
        unheard: list[KafkaError] = []
        # librdkafka calls back inside consume(), by then `consumer` is there.
        consumer: Consumer = open_consumer(
            properties,
            error_cb=lambda error: None if on_error(consumer, error) else unheard.append(error),
            on_commit=on_commit,
            throttle_cb=throttle_cb,
            **({} if stats_cb is None else {"stats_cb": stats_cb}),
            logger=ClientLog(self._emit),
        )
        connect_s = self._settings.connect_s
        try:
            ask = partial(
                missing_topics,
                consumer,
                self._topics,
                connect_s,
                letters=self._app.letter_topics,
                outputs=self._app.output_topics,
                note_partitions=self.partitions.update,
            )
            missing = self.wait(lambda: interruptible(ask, consumer.close))
        except EndpointError as error:
            # The request only says that time ran out; the reason comes by callback, in this poll.
            consumer.consume(1, 0.0)
            consumer.close()
            addresses = str(properties["bootstrap.servers"])
            raise unreachable(addresses, connect_s, unheard, error.__cause__) from error
        if missing is not None:
            consumer.close()
            raise missing
        return consumer

    def wait(self, answer: Callable[[], T]) -> T:
        """Wait for an answer, which a signal may cut short."""
        self.is_waiting = True
        try:
            return answer()
        finally:
            self.is_waiting = False


def interruptible(ask: Callable[[], T], give_up: Callable[[], object]) -> T:
    """Return what `ask` returns, or raise what it raises; Ctrl-C gets through.

    A signal's handler runs in the main thread between two of its bytecodes, and librdkafka's requests are
    one long call in C. So the main thread lets another one ask and waits in Python. The client belongs to
    the asking thread until that has returned.

    What a signal raises meanwhile ends the wait at once. `give_up` is then called as soon as `ask` has
    returned, for no other thread may use the client before. Other threads than the main one just ask.
    """
    if threading.current_thread() is not threading.main_thread():
        return ask()
    asked: Future[T] = Future()

    def run() -> None:
        try:
            asked.set_result(ask())
        except BaseException as error:  # raised again where the answer is waited for
            asked.set_exception(error)

    try:
        # Within the block: a thread's start waits, too.
        threading.Thread(target=run, name="ehkafka-reach", daemon=True).start()
        while not wait((asked,), SLICE_S).done:
            pass
    except BaseException:
        asked.add_done_callback(lambda _asked: give_up())
        raise
    return asked.result()


def ends_of(
    consumer: Consumer, partitions: Mapping[str, int], timeout_s: float
) -> dict[TopicPartition, LogBounds]:
    """Ask where logs end, once for all members: a partition that moves keeps the end that it had.

    `partitions` are the topics with the number of each. Raises `EndpointError`.
    """
    every = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    try:
        return interruptible(lambda: log_bounds(consumer, every, timeout_s), lambda: None)
    except KafkaException as error:
        raise EndpointError(
            f"The broker did not report the ends of the logs of {', '.join(sorted(partitions))}: "
            f"{describe_error(error.args[0])}"
        ) from error
