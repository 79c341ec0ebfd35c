"""The properties of the producers of outputs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.properties import limits
from ehkafka.endpoint.properties.layers import LETTER_BYTES, letter_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint

# librdkafka's own default, below what a broker takes by its own.
KAFKA_OUTPUT_BYTES_MAX = 1_000_000
# What a record's frame takes beside value, key and headers, at most.
FRAME_BYTES = 128


def output_bytes_max(endpoint: Endpoint, consumer: Mapping[str, Any]) -> int:
    """Return how large one output may be: the service's limit, or what `message.max.bytes` says.

    The app's property or the endpoint's: on Spark they are one.
    """
    if LETTER_BYTES in consumer or endpoint.chosen(LETTER_BYTES) is not None:
        return int(letter_properties(endpoint, consumer)[LETTER_BYTES])
    return limits.LETTER_BYTES_MAX if endpoint.is_event_hubs else KAFKA_OUTPUT_BYTES_MAX


def output_properties(
    endpoint: Endpoint, consumer: Mapping[str, Any], *, gapless: bool = True
) -> dict[str, Any]:
    """Return the properties of a producer of outputs; not `gapless`: of the one for what was refused.

    A gapless producer ends with the first message that is refused: nothing that was made later goes out
    before somebody has decided on it. Messages never time out, so that nothing but a refusal ends it.
    """
    return {
        **letter_properties(endpoint, consumer),
        LETTER_BYTES: output_bytes_max(endpoint, consumer),
        "message.timeout.ms": 0,
        # A broker takes any sequence number as the first one of a producer: where the very first request of
        # one is refused, a second one on the wire would pass it.
        "max.in.flight.requests.per.connection": 1,
        # As Java's: keys meet those of its producers.
        "partitioner": "murmur2_random",
        # The book has its own bound, so this queue never decides.
        "queue.buffering.max.messages": 100_000,
        # Brokers refuse whole batches: what was refused goes in one of its own, or others would seem to be at
        # fault, too.
        **({"enable.gapless.guarantee": True} if gapless else {"batch.num.messages": 1}),
    }
