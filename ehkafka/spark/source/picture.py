"""What a query's progress tells of its partitions, as the picture that metrics and pages read.

Pure. One thread takes progress, of a plain query or the engine's; any thread may ask for the picture.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.spark.source.lag import reported_offset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.ranges.offset_text import Positions
    from ehkafka.records import TopicPartition
    from ehkafka.telemetry.snapshot import PartitionSnapshot


class _Place(NamedTuple):
    """Where batches have got to in a partition, how many offsets they had, and where its log ended."""

    at: int
    received: int
    log_end: int | None


class QueryPicture:
    """The partitions of one query, since it is looked at."""

    def __init__(self) -> None:
        # Replaced and never changed: other threads read it.
        # By the number of the source in the query: two may read the same partition.
        self._places: dict[tuple[int, TopicPartition], _Place] = {}
        # How long the last batch with records took; None before the first.
        self.batch_s: float | None = None

    def take(self, progress: Mapping[str, Any]) -> None:
        """Take a progress, no older than the one before. One that was left out is made up for."""
        # One that is gone stays where it was, and nothing is known of its log.
        places = {one: place._replace(log_end=None) for one, place in self._places.items()}
        for number, source in enumerate(progress["sources"]):
            places |= self._reached(number, source)
        self._places = places
        took_ms = (progress.get("durationMs") or {}).get("triggerExecution")
        # Spark Connect has only the rows of the sources.
        if took_ms is not None and any(source["numInputRows"] for source in progress["sources"]):
            self.batch_s = took_ms / 1000

    @property
    def received_records(self) -> int:
        """How many offsets batches had, over all partitions."""
        return sum(place.received for place in self._places.values())

    def partitions(
        self, log_ends: Positions | None = None, committed: Positions | None = None
    ) -> tuple[PartitionSnapshot, ...]:
        """Return the picture of each partition, by name.

        `log_ends` are those of now, without them those of the last progress; where one is missing, the lag is
        not known. `committed` is what the group has.
        """
        # Not at the top: workers have no use for it.
        from ehkafka.telemetry.snapshot import PartitionSnapshot  # noqa: PLC0415

        found = []
        by_partition: dict[TopicPartition, list[_Place]] = {}
        for (_, one), place in self._places.items():
            by_partition.setdefault(one, []).append(place)
        for one, places in sorted(by_partition.items()):
            place = min(places, key=attrgetter("at"))  # the source that is further behind
            end = place.log_end if log_ends is None else log_ends.get(one)
            lag = None if end is None else max(0, end - place.at)
            group_has, got = (committed or {}).get(one), sum(each.received for each in places)
            # Between two batches no record waits, and a batch is all or nothing.
            waiting = (0, 0, 0, 0, None, 0)
            found.append(
                PartitionSnapshot(one, 1, lag, *waiting, place.at, group_has, got, got, 0, 0, False, None)
            )
        return tuple(found)

    def _reached(self, number: int, source: Mapping[str, Any]) -> dict[tuple[int, TopicPartition], _Place]:
        end = reported_offset(source.get("endOffset"))
        if end is None:
            return {}
        start, latest = (reported_offset(source.get(name)) for name in ("startOffset", "latestOffset"))
        begins = {**(end.start or {}), **({} if start is None else start.positions)}
        log_ends = {} if latest is None else latest.log_ends
        found = {}
        for one, at in end.positions.items():
            # One that was added begins with its log; without any begin nothing is known of this batch.
            before = self._places.get((number, one)) or _Place(begins.get(one, 0 if begins else at), 0, None)
            found[number, one] = _Place(at, before.received + max(0, at - before.at), log_ends.get(one))
        return found
