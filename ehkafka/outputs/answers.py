"""Hands one message to a client, and sorts errors: of the message, of its producer, or "later".

By "later" a broker throttles. Event Hubs delays its answers while a namespace is above its throughput, and
refuses with `POLICY_VIOLATION` if the delay would be longer than the client waits ("Event Hubs docs,
troubleshooting guide for Apache Kafka, server busy"). librdkafka treats that as the end of the message. Other
brokers use `POLICY_VIOLATION` for a policy that the message violates.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import describe
from ehkafka.outputs.output import OutputRefusedError
from ehkafka.records.client_codes import ClientCode

TAKEN_BACK: Final = frozenset({ClientCode.PURGE_QUEUE, ClientCode.PURGE_INFLIGHT})
"""The sender itself has purged the message."""

CONSEQUENCES: Final = TAKEN_BACK | {
    ClientCode.FATAL,
    ClientCode.GAPLESS_GUARANTEE,
    ClientCode.FENCED,
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


def produce_one(
    client: Any, topic: str, value: Any, key: Any, headers: Any, partition: int, *on_report: Any
) -> KafkaError | OutputRefusedError | None:
    """Return why the client does not take a message; None if it does.

    `QUEUE_FULL` is temporary. An `OutputRefusedError` is permanent: the message cannot be encoded.
    """
    given = {} if headers is None else {"headers": headers}
    try:
        client.produce(topic, value, key, partition, *on_report, **given)
    except BufferError:
        return KafkaError(ClientCode.QUEUE_FULL)
    except KafkaException as failed:
        error: KafkaError = failed.args[0]
        return error
    except Exception as failed:  # headers may hold anything
        return OutputRefusedError(describe(failed))
    return None
