"""Reads records for `witnesses`: with a client of its own, opened for each look, within five seconds.

Used in Spark's planning process, by its one thread, between two batches.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error, open_consumer
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.errors import EhkafkaError
from ehkafka.positions.witness import READ_S, read_witnesses, witness_properties
from ehkafka.spark.source.log_ids import quiet_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

    from ehkafka.positions.same_log import Reading
    from ehkafka.records import TopicPartition
    from ehkafka.spark.source.offsets import Positions
    from ehkafka.spark.source.options import SourceOptions

    Readings = Mapping[TopicPartition, Reading]

CHECK_EVERY_S: Final = 60.0
"""How often records are looked at. Each look costs a connection, and a batch of records from each log: 0.1 s
for 500 logs of a broker on the same machine."""

_LOG = logging.getLogger("ehkafka.spark")


class LogRecords:
    """The logs' records, by offset. Opens nothing before the first look."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._next_s = float("-inf")

    def is_due(self) -> bool:
        """Tell whether the last look is a minute ago, or there was none."""
        return time.monotonic() >= self._next_s

    def read(self, first: Positions, then: Positions) -> tuple[Readings, Readings]:
        """Return what the logs have at these offsets, `then` after `first`, as far as read in five seconds.

        `first` has half of the time where there is `then`. An error is no answer: the driver's own client
        tells of it, too.
        """
        if not (first or then):
            return {}, {}
        self._next_s = time.monotonic() + CHECK_EVERY_S
        try:
            # Quiet: whatever is wrong with the connection the driver's consumer tells, too.
            properties = witness_properties(quiet_properties(self._options))
            consumer = open_consumer(properties, logger=ClientLog(lambda _event: None))
            try:
                return _read(consumer, first, then)
            finally:
                consumer.close()
        except (KafkaException, EhkafkaError) as error:
            text = describe_error(error.args[0]) if isinstance(error, KafkaException) else str(error)
            _LOG.info("Whether the topics are still the same could not be read; it is retried: %s", text)
            return {}, {}


def _read(consumer: Consumer, first: Positions, then: Positions) -> tuple[Readings, Readings]:
    ends_s = time.monotonic() + READ_S
    before = read_witnesses(consumer, first, READ_S / 2 if then else READ_S)
    if before:
        # What was read is paused, and would stay so whatever is assigned next.
        consumer.resume([KafkaPartition(*partition) for partition in before])
    return before, read_witnesses(consumer, then, max(0.1, ends_s - time.monotonic()))
