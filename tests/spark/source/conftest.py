"""A log in memory for what the driver decides; an embedded broker, its options, and queries of its topic."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.positions.same_log import Reading
from ehkafka.ranges.log import Log
from ehkafka.ranges.log_ids import LogIds
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.failures import is_too_late
from ehkafka.spark.source.options import OF_A_QUERY, options_from
from ehkafka.spark.source.stream import Stream
from ehkafka.spark.starting import STARTS_MAX
from ehkafka.testing import EmbeddedBroker
from tests.spark.kept import close_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ehkafka.ranges.offset_text import Positions
    from ehkafka.ranges.places import Piece
    from ehkafka.spark.source.options import SourceOptions

Rows = list[tuple[int, int]]
# A query of a second may take minutes while others run; the time-out reports a test that hangs.
ENOUGH_S = 200


class FakeIds(LogIds):
    """What tells the logs of a `FakeLog` from others."""

    def __init__(self, log: FakeLog) -> None:
        self._log = log

    def begin(self, topics: Iterable[str]) -> None:
        """Nothing takes time here."""

    def first(self) -> Mapping[str, bytes]:
        """All ids."""
        return dict(self._log.ids)

    def now(self, known: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The ids of these topics; noted in `asked`."""
        self._log.asked.append("ids")
        return {topic: one for topic, one in self._log.ids.items() if topic in known}

    def is_check_due(self) -> bool:
        """Whether a minute has passed, as the test says."""
        return self._log.is_due

    def records(self, first: Positions, then: Positions) -> tuple[Any, Any]:
        """Read records; noted in `asked` with the numbers of both."""
        if first or then:
            self._log.asked.append(f"records {len(first)} {len(then)}")
            self._log.is_due = False
        fresh = self._read(first)
        self._log.in_between()
        return fresh, self._read(then)

    def _read(self, offsets: Positions) -> dict[TopicPartition, Reading]:
        return {one: self._reading(one, at) for one, at in offsets.items() if one not in self._log.unread}

    def _reading(self, partition: TopicPartition, at: int) -> Reading:
        log = self._log
        if at >= log.last[partition]:
            return Reading(None, log.last[partition])
        while (partition, at) in log.holes:
            at += 1
        if not log.first[partition] <= at < log.last[partition]:
            return Reading(None)
        return Reading((at, log.written_ms.get(partition.topic, 1000) + at))


@dataclass
class FakeLog(Log):
    """Logs as numbers: where each begins and ends, when records are, what a group committed."""

    words = OF_A_QUERY

    first: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, int] = field(default_factory=dict)
    commits: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    # One record a millisecond, the first at 1000 ms.
    asked: list[str] = field(default_factory=list)
    # Partitions that their topics have got since the first commits of every group.
    new: set[TopicPartition] = field(default_factory=set)
    # The topics' ids; a topic without one has none that the broker tells.
    ids: dict[str, bytes] = field(default_factory=dict)

    # When the first record of each topic was written, in ms since 1970: one a millisecond follows.
    written_ms: dict[str, int] = field(default_factory=dict)
    # Offsets that no record has any more, or that are read too late.
    holes: set[tuple[TopicPartition, int]] = field(default_factory=set)
    unread: set[TopicPartition] = field(default_factory=set)
    is_due: bool = True
    # What becomes of the logs between the two readings of a look.
    in_between: Callable[[], object] = lambda: None

    # What is to be there at the next look that asks anew.
    grow_late: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.identity = FakeIds(self)

    def grow(self, topic: str, *ends: int) -> None:
        """Let the topic's logs end there; partitions that are new begin at 0."""
        for number, end in enumerate(ends):
            partition = TopicPartition(topic, number)
            self.first.setdefault(partition, 0)
            self.last[partition] = end

    def topics(self) -> tuple[str, ...]:
        """The names."""
        return tuple(sorted({one.topic for one in self.last}))

    def reads(self, topic: str) -> bool:
        """Those that are there."""
        return topic in self.topics()

    def partitions(self) -> tuple[TopicPartition, ...]:
        """What is there."""
        return tuple(sorted(self.last))

    def partitions_now(self, known: Collection[TopicPartition] = ()) -> tuple[TopicPartition, ...]:
        """The same, and those that only this broker did not know yet."""
        self.grow_late()
        return self.partitions()

    def make_anew(self, topic: str, *ends: int) -> None:
        """Delete the topic and make it again, with an id and logs of its own."""
        for partition in [one for one in self.last if one.topic == topic]:
            del self.first[partition], self.last[partition]
        if topic in self.ids:
            self.ids[topic] = bytes(reversed(self.ids[topic]))
        self.written_ms[topic] = self.written_ms.get(topic, 1000) + 86_400_000
        self.grow(topic, *ends)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """First offsets; noted in `asked`."""
        self.asked.append("starts")
        return {one: self.first[one] for one in partitions}

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offsets after the last records; noted in `asked`."""
        self.asked.append("ends")
        return {one: self.last[one] for one in partitions}

    def at(self, moments_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Offsets of moments."""
        found = {one: max(0, moment - 1000) for one, moment in moments_ms.items()}
        return {one: offset if offset < self.last[one] else None for one, offset in found.items()}

    def committed(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """A group's commits, and what topics have got since."""
        committed = self.commits.get(group, {})
        return {one: committed[one] for one in partitions if one in committed}, self.new


def stream_of(log: FakeLog, **given: str) -> Stream:
    """Return a query's stream."""
    return Stream(options_from({"bootstrap": "localhost:1", "subscribe": "readings", **given}), log)


def batch(stream: Stream, start: Any, limit: int | None = None) -> tuple[dict[str, Any], list[Piece]]:
    """Return a batch's end as Spark hands it back, through JSON, and its pieces."""
    end: dict[str, Any] = json.loads(json.dumps(stream.latest(start, limit)))
    return end, stream.pieces(start, end)


def covered(pieces: list[Piece]) -> list[tuple[int, int]]:
    """Return every partition and offset that these read, sorted."""
    return sorted((one.partition, offset) for one in pieces for offset in range(one.start, one.end))


def read_all_of(log: FakeLog) -> dict[str, Any]:
    """Return the checkpoint of a query that has read what is there."""
    stream = stream_of(log, startingOffsets="earliest")
    return batch(stream, stream.initial())[0]


@pytest.fixture
def log() -> FakeLog:
    """Return a log without topics."""
    return FakeLog()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return an embedded broker with the topic `readings` of two partitions."""
    with EmbeddedBroker({"readings": 2}) as embedded:
        yield embedded
        close_idle()


@pytest.fixture
def options(broker: EmbeddedBroker) -> Callable[..., SourceOptions]:
    """Return what makes options for the embedded broker."""

    def make(**given: str) -> SourceOptions:
        return options_from({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings", **given})

    return make


class Sink:
    """Keeps (partition, offset) of every batch, by batch id: a batch that is replayed replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, Rows] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        rows = sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
        self.batches[batch_id] = rows

    @property
    def rows(self) -> Rows:
        """Everything, sorted."""
        return sorted(row for rows in self.batches.values() for row in rows)


class Queries:
    """Queries of the topic `readings`, one after the other, with one checkpoint directory."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker, checkpoint: Path) -> None:
        self._spark, self._broker, self.checkpoint = spark, broker, checkpoint

    def produce(self, *counts: int) -> None:
        """Append so many records to each partition."""
        for partition, count in enumerate(counts):
            if count:
                self._broker.produce("readings", [(b"k", b"v")] * count, partition=partition)

    def make_anew(self, *counts: int) -> None:
        """Delete the topic, make it again, and write so many records to each partition."""
        self._broker.delete_topic("readings")
        self._broker.create_topic("readings", 2)
        self.produce(*counts)

    def start(self, *, sink: Sink | None = None, now: bool = True, **given: str) -> tuple[Sink, Any]:
        """Run a query; return what it has read, and the query. `now` ends it when all is read.

        Either way all that is there has been read when it returns.
        """
        sink = Sink() if sink is None else sink
        options = {"kafka.bootstrap.servers": self._broker.bootstrap, "subscribe": "readings", **given}
        frame = self._spark.readStream.format("ehkafka").options(**options).load()
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.checkpoint))
        writer = writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")
        return sink, _begun(writer, to_its_end=now)

    def committed(self, group: str) -> dict[int, int | None]:
        """Return what a group has of each partition."""
        return self._broker.committed(group, "readings")

    def offset(self, batch: int) -> Any:
        """Return what Spark has written down as the end of a batch."""
        return json.loads((self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])


def _begun(writer: DataStreamWriter, *, to_its_end: bool) -> StreamingQuery:
    """Return a query that has ended, or has worked off what was there."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - an extra that a laptop may lack

    for left in reversed(range(STARTS_MAX)):
        query = writer.start()
        try:
            if to_its_end:
                assert query.awaitTermination(ENOUGH_S), "the query did not end"
            else:
                query.processAllAvailable()
        except StreamingQueryException as error:
            if not is_too_late(str(error)):
                raise
            assert left, f"Spark gave the query's process ten seconds to start {STARTS_MAX} times, in vain"
        else:
            break
    return query


@pytest.fixture
def queries(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Queries:
    """Return what runs queries of `readings`, and produces into it."""
    return Queries(spark, broker, tmp_path / "checkpoint")
