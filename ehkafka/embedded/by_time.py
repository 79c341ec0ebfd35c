"""Offsets by time on an embedded broker, which itself knows no record's time.

Its answer to every time is that no record is as late: what begins at a time would begin at the end. So the
logs are read, wherever the broker runs: in this process or in another one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka.cimpl import Consumer, TopicPartition

from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

# How librdkafka names the clusters that it runs by itself.
_CLUSTER = "mockCluster"
# The broker answers a fetch without records only after this wait, which the end of a log is known by.
_WAIT = {"fetch.wait.max.ms": 10}
_GROUP = {"group.id": "ehkafka-by-time", "enable.auto.commit": False, "enable.partition.eof": True, **_WAIT}


def is_embedded(cluster: ClusterMetadata) -> bool:
    """Tell whether an embedded broker answered."""
    return (cluster.cluster_id or "").startswith(_CLUSTER)


def find_offsets(cluster: ClusterMetadata, moments: Iterable[TopicPartition], timeout_s: float) -> None:
    """Replace each moment, in milliseconds, by the first offset that is as late; `OFFSET_END` without one.

    Raises `KafkaException` where a log is not read within `timeout_s`.
    """
    addresses = ",".join(f"{one.host}:{one.port}" for one in cluster.brokers.values())
    reader = Consumer({"bootstrap.servers": addresses, "log_level": 0, **_GROUP})
    ends_s = time.monotonic() + timeout_s
    try:
        for moment in moments:
            moment.offset = _first_since(reader, moment, ends_s)
    finally:
        reader.close()


def _first_since(reader: Consumer, moment: TopicPartition, ends_s: float) -> int:
    # A number: where a log begins, a client that does not know its leader yet asks half a second later.
    bounds = reader.get_watermark_offsets(moment, _left_s(ends_s)) or (OFFSET_BEGINNING, None)
    reader.assign([TopicPartition(moment.topic, moment.partition, bounds[0])])
    while (message := reader.poll(_left_s(ends_s))) is not None:
        if message.error() is not None:
            return OFFSET_END  # of the log
        if message.timestamp()[1] >= moment.offset:
            return int(message.offset() or 0)
    raise KafkaException(KafkaError(ClientCode.TIMED_OUT))


def _left_s(ends_s: float) -> float:
    return max(0.0, ends_s - time.monotonic())
