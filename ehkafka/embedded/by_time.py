"""A consumer that looks up offsets by time on an embedded broker, which itself knows no record's time.

Its answer to every time is that no record is as late: an app with `start=datetime(…)` would begin at the end.
So this one reads the logs. Used in place of a plain one wherever the address is an embedded broker's.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka.cimpl import Consumer, TopicPartition

_TIMEOUT_S = 10.0


class ReadingConsumer(Consumer):
    """A consumer whose `offsets_for_times` is that of an Apache Kafka."""

    def __init__(self, properties: dict[str, Any]) -> None:
        super().__init__(properties)
        self._bootstrap = properties["bootstrap.servers"]

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """See `confluent_kafka.Consumer.offsets_for_times`."""
        times_ms = {(one.topic, one.partition): one.offset for one in partitions if one.offset >= 0}
        answers = super().offsets_for_times(partitions, timeout=timeout)
        unanswered = {(one.topic, one.partition) for one in answers if one.offset == OFFSET_END}
        wanted_ms = {key: at_ms for key, at_ms in times_ms.items() if key in unanswered}
        found = self._read(wanted_ms, timeout if timeout >= 0 else _TIMEOUT_S) if wanted_ms else {}
        for answer in answers:
            answer.offset = found.get((answer.topic, answer.partition), answer.offset)
        return answers

    def _read(self, wanted_ms: dict[tuple[str, int], int], timeout_s: float) -> dict[tuple[str, int], int]:
        """Return the offset of the first record that is as late, of each partition that has one."""
        found: dict[Any, Any] = {}
        unread: set[Any] = set(wanted_ms)
        deadline_s = time.monotonic() + timeout_s
        group = {"group.id": "ehkafka-by-time", "enable.auto.commit": False, "enable.partition.eof": True}
        reader = Consumer({"bootstrap.servers": self._bootstrap, "log_level": 0, **group})
        try:
            reader.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in wanted_ms])
            while unread:
                if time.monotonic() > deadline_s:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its public name
                for message in reader.consume(1_000, 0.05):
                    partition: Any = (message.topic(), message.partition())
                    if message.error() is not None:
                        unread.discard(partition)  # the log's end
                    elif partition in unread and message.timestamp()[1] >= wanted_ms[partition]:
                        found[partition] = message.offset()
                        unread.discard(partition)
        finally:
            reader.close()
        return found
