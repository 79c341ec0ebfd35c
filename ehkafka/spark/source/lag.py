"""How far a query is behind, out of its progress. Pure; called by whoever watches a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.spark.source.offsets import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import TopicPartition


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return how many offsets each partition was behind its log's end when the batch was planned.

    `progress` is a listener's or `query.lastProgress`. What the batch itself read counts as done. Sources of
    other kinds are left out, but for the JVM Kafka connector, whose offsets look the same. From PySpark 4.2
    on; earlier ones do not report the logs' ends. A log with holes has fewer records than offsets.
    """
    found: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        try:
            done, there = decode(source["endOffset"] or ""), decode(source["latestOffset"] or "")
        except ConfigurationError:
            continue
        found |= {one: max(0, end - done.get(one, 0)) for one, end in there.items()}
    return found
