"""How far a query is behind, out of its progress. A program that watches a query calls it on the driver."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.spark.source.offsets import StreamOffset, read
from ehkafka.spark.source.options import options_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import TopicPartition


def lag(progress: Mapping[str, Any], options: Mapping[str, str] | None = None) -> dict[TopicPartition, int]:
    """Return how many offsets each partition is behind its log's end.

    What the batch itself read counts as done. Sources of other kinds are left out, except the JVM Kafka
    connector, whose offsets look the same. A log with holes has fewer records than offsets.

    - `progress` (required): a listener's, or `query.lastProgress`.
    - `options` (default `None`): those of the stream: the broker is asked for the logs' ends of now. None:
      the ends are those of the moment when the batch was planned.

    Raises `ConfigurationError` for a progress without a position, or without these ends.
    """
    found: dict[TopicPartition, int] = {}
    ends = None if options is None else _ends(options)
    for source in progress["sources"]:
        at = reported_offset(source.get("endOffset"))
        if at is None:
            continue
        done = at.positions
        topics = {one.topic for one in done}
        there = _reported(source) if ends is None else ends
        left = {one: end - done.get(one, 0) for one, end in there.items() if one.topic in topics}
        # Two sources may read the same partition: the one that is further behind counts.
        found |= {one: max(offsets, found.get(one, 0)) for one, offsets in left.items()}
    if not found:
        raise ConfigurationError(
            "The query's progress has no Kafka offsets, so the lag is unknown: wait for the first batch, "
            "and check that the options are those of this query's stream."
        )
    return found


def _reported(source: Mapping[str, Any]) -> dict[TopicPartition, int]:
    # Before 4.2 this is the end of the batch, which carries the logs' ends where they differ.
    reported = reported_offset(source.get("latestOffset"))
    if reported is None:
        raise ConfigurationError(
            "The query's progress does not contain the ends of the logs. Give the stream's options, so "
            "ehkafka can ask the broker: lag(query.lastProgress, options)."
        )
    return dict(reported.log_ends)


def _ends(options: Mapping[str, str]) -> dict[TopicPartition, int]:
    from ehkafka.ranges.log import Log  # noqa: PLC0415 - asks a broker, for which it loads a client

    with Log(options_from(options)) as log:
        return log.ends(log.partitions())


def reported_offset(reported: object) -> StreamOffset | None:
    """Return the offset that a progress has of a source, as text, or as JSON; None where it is none."""
    text = reported or ""
    try:
        if not isinstance(text, str):
            return StreamOffset.from_json(text)
        # Before 4.2 a progress has an offset as Python writes it, not as JSON.
        return read(json.dumps(ast.literal_eval(text)) if text.startswith("{'") else text)
    except (ConfigurationError, SyntaxError, ValueError):
        return None
