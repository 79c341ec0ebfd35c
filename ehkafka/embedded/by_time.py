"""A consumer that looks up offsets by time on an embedded broker, which itself knows no record's time.

Its answer to every time is that no record is as late: an app with `start=datetime(…)` would begin at the end.
So this one reads the logs. Used in place of a plain one wherever the address is an embedded broker's.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka.cimpl import Consumer, TopicPartition

from ehkafka.records.client_codes import ClientCode

_TIMEOUT_S = 10.0
# The broker answers a fetch without records only after this wait, which the end of a log is known by.
_WAIT = {"fetch.wait.max.ms": 10}
_GROUP = {"group.id": "ehkafka-by-time", "enable.auto.commit": False, "enable.partition.eof": True, **_WAIT}


class ReadingConsumer(Consumer):
    """A consumer whose `offsets_for_times` is that of an Apache Kafka."""

    def __init__(self, properties: dict[str, Any]) -> None:
        super().__init__(properties)
        self._where = {"bootstrap.servers": properties["bootstrap.servers"], "log_level": 0}

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """See `confluent_kafka.Consumer.offsets_for_times`."""
        wanted = {(one.topic, one.partition): one.offset for one in partitions if one.offset >= 0}
        answers = super().offsets_for_times(partitions, timeout=timeout)
        for answer in answers:
            at_ms = wanted.get((answer.topic, answer.partition))
            if at_ms is not None and answer.error is None:
                answer.offset = self._first_since(answer, at_ms, timeout if timeout >= 0 else _TIMEOUT_S)
        return answers

    def _first_since(self, partition: TopicPartition, at_ms: int, timeout_s: float) -> int:
        # A number: where a log begins, a client that does not know its leader yet asks half a second later.
        bounds = self.get_watermark_offsets(partition, timeout_s) or (OFFSET_BEGINNING, None)
        reader = Consumer({**self._where, **_GROUP})
        try:
            reader.assign([TopicPartition(partition.topic, partition.partition, bounds[0])])
            while (message := reader.poll(timeout_s)) is not None:
                if message.error() is not None:
                    return OFFSET_END  # of the log
                if message.timestamp()[1] >= at_ms:
                    return int(message.offset() or 0)
        finally:
            reader.close()
        raise KafkaException(KafkaError(ClientCode.TIMED_OUT))
