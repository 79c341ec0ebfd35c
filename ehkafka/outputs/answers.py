"""Sorts the broker's errors: an error is about the message, about its producer, or means "later". Pure.

By "later" a broker throttles. Event Hubs delays its answers while a namespace is above its throughput, and
refuses with `POLICY_VIOLATION` if the delay would be longer than the client waits ("Event Hubs docs,
troubleshooting guide for Apache Kafka, server busy"). librdkafka treats that as the end of the message. Other
brokers use `POLICY_VIOLATION` for a policy that the message violates.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from ehkafka.endpoint.client import describe_error
from ehkafka.outputs.output import OutputRefusedError

TAKEN_BACK: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001
"""The sender itself has purged the message."""

CONSEQUENCES: Final = TAKEN_BACK | {
    KafkaError._FATAL,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._GAPLESS_GUARANTEE,  # noqa: SLF001
    KafkaError._FENCED,  # noqa: SLF001
    # The broker does not know the producer id or its sequence any more: another producer is needed.
    *(45, 46, 47, 49, 59),
}
"""These errors are not about the message: its producer has ended for another reason, or it was purged."""

THROTTLING_QUOTA_EXCEEDED: Final = 89
POLICY_VIOLATION: Final = 44

IN_DOUBT: Final = "the broker has confirmed a later output, but gave no offset for this one"

AGAIN_FIRST_S: Final = 0.5
AGAIN_MAX_S: Final = 30.0


def busy_codes(*, is_event_hubs: bool) -> frozenset[int]:
    """Return the errors, by Kafka's number, after which the same is sent again and no attempt counts."""
    return frozenset({THROTTLING_QUOTA_EXCEEDED, *([POLICY_VIOLATION] if is_event_hubs else [])})


def again_s(tries: int) -> float:
    """Return the seconds to wait after so many such refusals in a row."""
    return min(AGAIN_MAX_S, AGAIN_FIRST_S * (1 << min(tries - 1, 10)))


def refused_error(error: KafkaError) -> OutputRefusedError:
    """Return a broker's refusal as the error for a judge."""
    return OutputRefusedError(describe_error(error), error.code())
