"""Writes letters home, in their order, over as many producers as that takes.

On the redrive's thread. A letter stays here until the broker has acknowledged it. Where one fails, the
producer writes nothing behind it (`enable.gapless.guarantee`) and is given up; the next one writes all that
was not acknowledged, in the same order. So a letter may be written twice, but is never left out before a
later one.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error, open_producer
from ehkafka.endpoint.properties.layers import LETTER_BYTES, letter_properties
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.checks.target import Target
    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.records import TopicPartition
    from ehkafka.recovery.letters.letter import Headers

# So many producers in a row without an acknowledgement, over half a minute: a person has to look.
REPLACED_MAX = 5
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE}
# Another try or another producer would hear the same.
_HOPELESS = _TOO_LARGE | {
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._INVALID_ARG,  # noqa: SLF001
}
# Taken back from a producer that was given up.
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001


class Homecoming(NamedTuple):
    """One letter's record on its way home, and what to call when it is safe there."""

    letter: str
    home: TopicPartition
    key: bytes | None
    value: bytes | None
    headers: Headers
    safe: Callable[[], None]


class HomeWriter:
    """`send` and `serve`, on one thread. Raises `EndpointError` for what no waiting fixes."""

    def __init__(self, target: Target, emit: Callable[[Event], None]) -> None:
        def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
            properties = letter_properties(target.endpoint, target.consumer, is_plain=is_plain)
            if not is_plain:
                properties["enable.gapless.guarantee"] = True
            return open_producer(properties, **callbacks._asdict())

        self._producer = OneProducer(open_client, emit=emit)
        self._serial = itertools.count()
        # In the order in which they were given; each is with the producer, or waits for the next one.
        self._unacknowledged: dict[int, Homecoming] = {}
        self._has_failed = False
        self._refused: EndpointError | None = None

    def start(self) -> None:
        """Open the producer and wait for its id. Raises `EhkafkaError` for what is refused."""
        self._producer.start()

    @property
    def in_flight(self) -> int:
        """How many letters are not acknowledged."""
        return len(self._unacknowledged)

    @property
    def in_flight_max(self) -> int | None:
        """How many may be; None for no limit. Without producer ids one alone keeps the order."""
        return 1 if self._producer.is_plain else None

    def send(self, homecoming: Homecoming) -> None:
        """Send one letter's record home. Raises `BufferError` where the producer has no room for it."""
        number = next(self._serial)
        if self._producer.client is not None and not self._has_failed:
            self._produce(number, homecoming)
        self._unacknowledged[number] = homecoming

    def serve(self, timeout_s: float) -> None:
        """Take answers, and go on with another producer where one failed."""
        producer = self._producer
        if producer.client is not None:
            producer.serve(timeout_s)
        else:
            time.sleep(min(timeout_s, producer.due_s()))
        self.raise_refused()
        if producer.client is not None and (self._has_failed or producer.is_lost):
            self._give_up_producer()
        if producer.client is None:
            self._go_on()

    def finish(self, timeout_s: float) -> None:
        """Wait for the last answers within a bound, and let the producer go."""
        self._producer.give_up(timeout_s)

    def raise_refused(self) -> None:
        """Raise what no other try would fix, if a letter met it."""
        if self._refused is not None:
            raise self._refused

    def _give_up_producer(self) -> None:
        if self._producer.replaced >= REPLACED_MAX:
            oldest = next(iter(self._unacknowledged.values()))
            raise EndpointError(
                f"The letter {oldest.letter} could not be written to {oldest.home}, whichever of "
                f"{REPLACED_MAX + 1} producers tried: {ended(str(self._producer.problem))} All before it is "
                "safe; start "
                "the redrive again to continue with it."
            )
        self._producer.replace()
        self._has_failed = False
        self.raise_refused()

    def _go_on(self) -> None:
        """Open the next producer when its time has come, and give it what the last one left, in order."""
        try:
            self._producer.open_when_due()
        except EhkafkaError as failed:
            if self._producer.replaced >= REPLACED_MAX:
                raise EndpointError(f"No letter can be written home: {failed}") from failed
        if self._producer.client is None:
            return
        left, self._unacknowledged = self._unacknowledged, {}
        for number, homecoming in left.items():
            self._unacknowledged[number] = homecoming
            while not self._has_room(number, homecoming):
                self._producer.serve(0.05)

    def _has_room(self, number: int, homecoming: Homecoming) -> bool:
        if self._has_failed:
            return True  # it is for the next producer
        try:
            self._produce(number, homecoming)
        except BufferError:
            return False
        return True

    def _produce(self, number: int, homecoming: Homecoming) -> None:
        client = self._producer.client
        assert client is not None
        try:
            client.produce(
                homecoming.home.topic,
                homecoming.value,
                homecoming.key,
                partition=homecoming.home.partition,
                headers=list(homecoming.headers),
                on_delivery=lambda error, _message: self._answered(number, error),
            )
        except KafkaException as failed:
            self._failed(homecoming, failed.args[0])

    def _answered(self, number: int, error: KafkaError | None) -> None:
        if error is None:
            self._producer.acknowledged()
            self._unacknowledged.pop(number).safe()
        elif error.code() not in _PURGED:
            self._producer.reported()
            self._failed(self._unacknowledged[number], error)

    def _failed(self, homecoming: Homecoming, error: KafkaError) -> None:
        if error.code() not in _HOPELESS:
            self._has_failed = True
            self._producer.failed(error)
        elif self._refused is None:
            is_large = error.code() in _TOO_LARGE
            advice = f" If the service takes larger records, raise {LETTER_BYTES}." if is_large else ""
            self._refused = EndpointError(
                f"The letter {homecoming.letter} could not be written to {homecoming.home}: "
                f"{describe_error(error)}.{advice} All before it is safe; start the redrive again to "
                "continue with it."
            )
