"""Where logs end, asked before any member of a supervisor runs. On the thread that starts the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.records import TopicPartition
from ehkafka.run.reach import interruptible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

    from ehkafka.positions.gap import LogBounds


def ends_of(
    consumer: Consumer, partitions: Mapping[str, int], timeout_s: float
) -> dict[TopicPartition, LogBounds]:
    """Ask once for all members: a partition that moves to another one of them keeps the end that it had.

    `partitions` are the topics with the number of each. Raises `EndpointError`.
    """
    every = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    try:
        return interruptible(lambda: log_bounds(consumer, every, timeout_s), lambda: None)
    except KafkaException as error:
        raise EndpointError(
            f"Where the logs of {', '.join(sorted(partitions))} end could not be read: "
            f"{describe_error(error.args[0])}"
        ) from error
