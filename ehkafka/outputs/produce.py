"""Hands one message to a client; an exception of the client becomes the error that a report would have."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import describe
from ehkafka.outputs.output import OutputRefusedError

QUEUE_FULL: Final = KafkaError._QUEUE_FULL  # noqa: SLF001 - librdkafka's own codes start with an underscore


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
        return KafkaError(QUEUE_FULL)
    except KafkaException as failed:
        error: KafkaError = failed.args[0]
        return error
    except Exception as failed:  # headers may hold anything
        return OutputRefusedError(describe(failed))
    return None
