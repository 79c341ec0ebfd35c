"""Tries one transaction at the start, on a service that may lack transactions.

It commits an offset with metadata, for a group that has no consumers: exactly once needs both. It blocks; the
thread that starts the app calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.transactions.committing import metadata_of_no_member
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

PROBE_S: Final = 10.0
SUFFIX: Final = "-transactions-probe"
_METADATA: Final = "ehkafka probe"
_INSTEAD: Final = "Leave exactly_once out: then outputs are sent at least once."


def probe(client: Any, open_consumer: Callable[[str], Consumer], group: str, topic: str) -> None:
    """Commit an offset in a transaction, and read it back. Raises `EndpointError` if that does not work.

    `open_consumer` returns a consumer of a group.
    """
    name = f"{group}{SUFFIX}"
    wanted = KafkaPartition(topic, 0, 0, _METADATA)
    try:
        client.begin_transaction()
        client.send_offsets_to_transaction([wanted], metadata_of_no_member(name), PROBE_S)
        client.commit_transaction(PROBE_S)
        consumer = open_consumer(name)
        try:
            [found] = consumer.committed([KafkaPartition(topic, 0)], timeout=PROBE_S)
        finally:
            consumer.close()
    except KafkaException as failed:
        raise EndpointError(
            f"exactly_once='preview': a transaction does not work on this broker: "
            f"{ended(describe_error(failed.args[0]))} {_INSTEAD}"
        ) from None
    if (found.offset, found.metadata) != (wanted.offset, _METADATA):
        raise EndpointError(
            "exactly_once='preview': the broker committed a transaction, but lost its offset or metadata: "
            f"it returned offset {found.offset} and metadata {found.metadata!r:.60}. {_INSTEAD}"
        )
