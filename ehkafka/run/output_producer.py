"""The producers of outputs: opened with the endpoint's credentials, one after the other.

Made on the thread that starts a run; a producer belongs to the sender's thread from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.errors import EndpointError
from ehkafka.events import OutputProducerReplaced
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.properties import output_properties

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.settings import Settings


def output_producer(
    endpoint: Endpoint, settings: Settings, emit: Callable[[Event], None], *, gapless: bool = True
) -> OneProducer:
    """Return a producer that is not open yet.

    Opening it raises `EndpointError` where the broker gives no producer ids.
    """

    # Anew for each producer: the key may have changed since.
    def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
        if is_plain:
            raise EndpointError(
                "Handlers have outputs, and this broker gives no producer ids (InitProducerId), without "
                "which their order cannot be kept. Use a broker that does, such as Kafka 0.11 or later."
            )
        properties = output_properties(endpoint, settings, gapless=gapless)
        return open_producer(properties, **callbacks._asdict())

    return OneProducer(
        open_client,
        emit=emit,
        make_watch=lambda: CredentialWatch(endpoint.credential, emit),
        of="outputs",
        replaced=OutputProducerReplaced,
        plain=None,
    )


def check_output_producer(endpoint: Endpoint, settings: Settings, emit: Callable[[Event], None]) -> None:
    """Open a producer once and close it again. Raises `ConfigurationError` or `EndpointError`."""
    producer = output_producer(endpoint, settings, emit)
    try:
        producer.start()
    finally:
        producer.give_up(0.0)
