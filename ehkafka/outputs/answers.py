"""What the broker's errors say: something of the message, of its producer, or "later". Pure.

"Later" is how a broker throttles. Event Hubs holds an answer back while a namespace is above its throughput,
and refuses with `POLICY_VIOLATION` what it would hold back for longer than the client waits ("Event Hubs
docs, troubleshooting guide for Apache Kafka, server busy"). librdkafka takes that for the end of the message.
Elsewhere `POLICY_VIOLATION` is what it says.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from ehkafka.endpoint.client import describe_error
from ehkafka.outputs.output import OutputRefusedError

TAKEN_BACK: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001
"""The sender itself has taken the message back."""

CONSEQUENCES: Final = TAKEN_BACK | {
    KafkaError._FATAL,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._GAPLESS_GUARANTEE,  # noqa: SLF001
    KafkaError._FENCED,  # noqa: SLF001
    # The id or its sequence is not known any more: another producer is needed.
    *(45, 46, 47, 49, 59),
}
"""These say nothing of the message itself: something else has ended its producer, or it was taken back."""

THROTTLING_QUOTA_EXCEEDED: Final = 89
POLICY_VIOLATION: Final = 44

IN_DOUBT: Final = "an output counts as written because a later one is, and the broker did not say where it is"

AGAIN_FIRST_S: Final = 0.5
AGAIN_MAX_S: Final = 30.0


def busy_codes(*, is_event_hubs: bool) -> frozenset[int]:
    """Return the errors, by Kafka's number, after which the same is sent again and nothing counts."""
    return frozenset({THROTTLING_QUOTA_EXCEEDED, *([POLICY_VIOLATION] if is_event_hubs else [])})


def again_s(tries: int) -> float:
    """Return how long to wait after so many such refusals in a row."""
    return min(AGAIN_MAX_S, AGAIN_FIRST_S * (1 << min(tries - 1, 10)))


def refused_error(error: KafkaError) -> OutputRefusedError:
    """Return a broker's refusal as what a judge is given."""
    return OutputRefusedError(describe_error(error), error.code())
