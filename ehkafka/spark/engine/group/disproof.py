"""Tells at a run's start which positions belong to another log: by its topic's id, else by its records.

On the driver, in the thread that starts the query: unlike a poll thread it may wait, within bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.positions.witness import read_witnesses
from ehkafka.spark.source.loss import records_replaced
from ehkafka.spark.source.witnesses import made_anew
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.positions.same_log import Reading, WitnessRecord
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition

    Reasons = Mapping[TopicPartition, str]


class Disproof:
    """Called with what is known of positions; returns which are disproved, and what tells."""

    def __init__(
        self,
        by_ids: Callable[[Mapping[TopicPartition, LogFacts]], Reasons],
        open_consumer: Callable[[], Consumer],
    ) -> None:
        self._by_ids = by_ids
        self._open_consumer = open_consumer

    def __call__(self, facts: Mapping[TopicPartition, LogFacts]) -> dict[TopicPartition, str]:
        """Read records of positions without a topic's id. What is not read in five seconds is not disproved.

        One partition tells of its whole topic: the others' positions belong to the old one as well. Raises
        `EndpointError`.
        """
        witnesses = {
            p: one.witness for p, one in facts.items() if one.witness is not None and one.topic_id is None
        }
        replaced = made_anew(witnesses, self._read(witnesses))
        by_records = {
            partition: replaced[partition.topic].get(partition)
            or records_replaced(partition.topic, replaced[partition.topic])
            for partition in facts
            if partition.topic in replaced
        }
        return {**by_records, **self._by_ids(facts)}

    def _read(self, witnesses: Mapping[TopicPartition, WitnessRecord]) -> Mapping[TopicPartition, Reading]:
        if not witnesses:
            return {}
        consumer = self._open_consumer()
        try:
            return read_witnesses(consumer, {p: offset for p, (offset, _) in witnesses.items()})
        except KafkaException as error:
            text = describe_error(error.args[0])
            raise EndpointError(
                f"Whether the topics are still the same could not be read from the broker: {ended(text)} "
                "Start again when it answers."
            ) from error
        finally:
            consumer.close()
