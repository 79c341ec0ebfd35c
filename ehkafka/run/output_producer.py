"""The producers of outputs and dead letters: opened with the endpoint's credentials, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.errors import EndpointError
from ehkafka.events import DeadLetterProducerPlain, DeadLetterProducerReplaced, OutputProducerReplaced
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.properties import output_properties
from ehkafka.outputs.sender import BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.run.options import AppOptions


class OutputProducers:
    """Makes the two that a sender has. Not open yet.

    Opening one raises `EndpointError` where the broker gives no producer ids and handlers have outputs; dead
    letters alone need no ids.
    """

    def __init__(self, app: AppOptions, emit: Callable[[Event], None]) -> None:
        self._app = app
        self._emit = emit
        self._has_outputs = any(spec.to for spec in app.specs)

    def first(self) -> OneProducer:
        """Return the one that ends with the first output that is refused."""
        return self._made({})

    def second(self) -> OneProducer:
        """Return the one for what was refused: batches of one, or others would seem to be at fault, too."""
        return self._made({"enable.gapless.guarantee": False, "batch.num.messages": 1})

    def check(self) -> None:
        """Open a producer once and close it again. Raises `ConfigurationError` or `EndpointError`."""
        producer = self.second()
        try:
            producer.start()
        finally:
            producer.give_up(0.0)

    def _made(self, more: dict[str, Any]) -> OneProducer:
        app, emit = self._app, self._emit
        at_once = any(spec.acknowledged == "before_next" for spec in app.specs)

        # Anew for each producer: the key may have changed since.
        def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
            if is_plain and self._has_outputs:
                raise EndpointError(
                    "Handlers have outputs, and this broker gives no producer ids (InitProducerId), without "
                    "which their order cannot be kept. Use a broker that does, such as Kafka 0.11 or later."
                )
            properties = output_properties(app.endpoint, app.settings, is_plain=is_plain, at_once=at_once)
            properties |= more
            if producer.batch_bytes is not None:
                chosen = int(properties.get("batch.size", BATCH_BYTES))
                properties["batch.size"] = min(chosen, producer.batch_bytes)
            if is_plain:
                properties.pop("enable.gapless.guarantee")
            return open_producer(properties, **callbacks._asdict())

        producer = OneProducer(
            open_client,
            emit=emit,
            make_watch=lambda: CredentialWatch(app.endpoint.credential, emit),
            of="outputs" if self._has_outputs else "dead letters",
            replaced=OutputProducerReplaced if self._has_outputs else DeadLetterProducerReplaced,
            plain=None if self._has_outputs else DeadLetterProducerPlain,
        )
        return producer
