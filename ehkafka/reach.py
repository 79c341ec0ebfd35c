"""Reach: opens a run's consumer and waits for the broker's first answer.

In the thread that starts the app, so that a wrong address is an exception there. What it waits for, a token
or the broker, a signal may cut short; then no client is left open.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ehkafka.endpoint.advice import consumer_advice
from ehkafka.endpoint.client import open_consumer
from ehkafka.endpoint.properties import consumer_properties
from ehkafka.errors import EndpointError
from ehkafka.intake.broker_errors import missing_topics, unreachable
from ehkafka.intake.client_log import ClientLog
from ehkafka.intake.interruptible import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.settings import Settings

T = TypeVar("T")


class Reach:
    """One start's way to the broker. `letters` are topics that need to be there as well, to be written to."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        *,
        topics: set[str],
        letters: set[str],
        emit: Callable[[Event], None],
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._topics = topics
        self._letters = letters
        self._emit = emit
        # True while it waits for a token or the broker. Written by the starting thread, read by any.
        self.is_waiting = False
        # How many partitions each of the topics had when the broker answered.
        self.partitions: dict[str, int] = {}

    def properties(self) -> dict[str, Any]:
        """Return the consumer's, having told what speaks against them. Raises `ConfigurationError`."""
        settings = self._settings
        properties = consumer_properties(
            self._endpoint,
            settings.group,
            settings.consumer,
            assignor=settings.assignor,
            instance_id=settings.instance_id,
        )
        for advice in consumer_advice(self._endpoint, properties):
            self._emit(advice)
        return properties

    def open(
        self,
        properties: dict[str, Any],
        *,
        hear: Callable[[Consumer, KafkaError], bool],
        on_commit: Callable[..., None],
        throttle_cb: Callable[..., None],
        stats_cb: Callable[[str], None] | None = None,
    ) -> Consumer:
        """Return a consumer that the broker has answered. Raises what is wrong.

        `hear` gets the client's errors and says whether it took them; one that it did not take may explain
        why the broker gives no answer.
        """
        self._endpoint.prepare_topics(self._topics | self._letters)
        if (tokens := self._endpoint.tokens) is not None:
            self._wait(lambda: tokens.sign_in(self._settings.connect_s))
        unheard: list[KafkaError] = []
        # librdkafka calls back inside consume(), by then `consumer` is there.
        consumer: Consumer = open_consumer(
            properties,
            error_cb=lambda error: None if hear(consumer, error) else unheard.append(error),
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
                letters=self._letters,
                note_partitions=self.partitions.update,
            )
            missing = self._wait(lambda: interruptible(ask, consumer.close))
        except EndpointError as error:
            # The request only tells that time ran out; why is told by callback, which this poll lets through.
            consumer.consume(1, 0.0)
            consumer.close()
            addresses = str(properties["bootstrap.servers"])
            raise unreachable(addresses, connect_s, unheard, error.__cause__) from error
        if missing is not None:
            consumer.close()
            raise missing
        return consumer

    def _wait(self, answer: Callable[[], T]) -> T:
        """Wait for somebody else's answer, which a signal may cut short."""
        self.is_waiting = True
        try:
            return answer()
        finally:
            self.is_waiting = False
