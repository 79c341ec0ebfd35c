"""Which logs have no record from an offset up to their end: compaction takes away the last ones, too.

No client tells of such a hole: its position stays before it, and nothing arrives. So somebody reads there
with a consumer of its own, which joins no group and commits nothing. A log's tail is empty when a fetch from
there was answered, which the client shows by knowing where the log ends, and brought nothing for a while:
neither a record nor anything that the client could not parse. Never on the poll thread.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer

READ_S: Final = 5.0
_POLL_S: Final = 0.1
# A record stands in the same answer as the end; so much later it has long been handed out.
_QUIET_S: Final = 1.0


class Unparsed:
    """Counts the parts of answers that a client could not parse, of which its statistics alone tell.

    `properties` are for that client. With one that has others, nothing is counted. `broken` is the only log
    that was left to read, where it brought such parts again and again, and nothing else.
    """

    def __init__(self) -> None:
        self.count = 0
        self.broken: set[TopicPartition] = set()
        self.properties = {"statistics.interval.ms": 200, "stats_cb": self._on_statistics}

    def _on_statistics(self, text: str) -> None:
        brokers = json.loads(text).get("brokers", {})
        self.count = sum(broker.get("rxpartial", 0) for broker in brokers.values())


def empty_tails(
    consumer: Consumer,
    tails: Mapping[TopicPartition, tuple[int, int]],
    timeout_s: float = READ_S,
    *,
    unparsed: Unparsed | None = None,
    should_end: Callable[[], bool] = lambda: False,
) -> set[TopicPartition]:
    """Return the partitions without a record between these two offsets. Assigns the consumer.

    What is not known in time is left out.
    """
    ends_s = time.monotonic() + timeout_s
    left = dict(tails)
    # Since when a log's end is known, which no record has followed.
    answered_s: dict[TopicPartition, float] = {}
    consumer.assign([KafkaPartition(*partition, begin) for partition, (begin, _end) in tails.items()])
    empty: set[TopicPartition] = set()
    seen, times, unparsed = 0, 0, unparsed or Unparsed()
    while left and time.monotonic() < ends_s and not should_end():
        for message in consumer.consume(len(left), _POLL_S):
            # The end of a log, which this client tells as an error, is what we ask about. Any other error of
            # a partition says that there may be something: a batch that cannot be read is no empty tail.
            error = message.error()
            if error is None or error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's code
                partition = TopicPartition(message.topic(), message.partition())  # type: ignore[arg-type]
                if left.pop(partition, None) is not None:
                    # A long log's answers are cut, which counts as unparsed.
                    consumer.pause([KafkaPartition(*partition)])
        now_s = time.monotonic()
        if unparsed.count != seen:
            seen, times = unparsed.count, times + 1
            answered_s.clear()
        for partition, (_begin, end) in list(left.items()):
            bounds: Any = consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
            if bounds is None or bounds[1] < end:
                continue
            if now_s - answered_s.setdefault(partition, now_s) >= _QUIET_S:
                empty.add(partition)
                del left[partition]
    if len(left) == 1 and times > 1:
        unparsed.broken = set(left)
    return empty
