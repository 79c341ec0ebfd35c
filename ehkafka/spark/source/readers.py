"""The reader of `spark.read`, and what the stream readers of all PySpark versions do alike.

Made once on the driver, where it plans, and pickled to tasks, where it reads: the options travel, what was
opened on the driver does not. Called in Spark's planning process and its workers, one thread each.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from ehkafka.errors import ConfigurationError
from ehkafka.ranges import begin
from ehkafka.ranges.places import LATEST, AtOffsets, AtWord, pieces_between
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source.planning import plan
from ehkafka.spark.source.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from ehkafka.ranges.log import Log
    from ehkafka.ranges.places import Piece
    from ehkafka.spark.source.commits import QueryCommits
    from ehkafka.spark.source.options import SourceOptions


class SourcePartition(InputPartition):
    """The work of one task, perhaps none: the pieces that it reads. Picklable."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


class PiecesReader:
    """What readers of streams and of batches do in a worker."""

    options: SourceOptions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's records."""
        # Not at the top: planning needs neither Arrow nor NumPy.
        from ehkafka.ranges.batches import record_batches  # noqa: PLC0415
        from ehkafka.spark.source.consumers import messages  # noqa: PLC0415

        assert isinstance(partition, SourcePartition)
        with reported_in_one_line():
            yield from record_batches(self.options.columns, messages(self.options, partition.pieces))


class SourceBatchReader(PiecesReader, DataSourceReader):
    """Reads what lies between two places of the log: a range of each partition, planned once."""

    def __init__(self, options: SourceOptions) -> None:
        start = options.start
        if start == AtWord("latest") or (
            isinstance(start, AtOffsets)
            and (start.otherwise == "latest" or any(offset == LATEST for _, offset in start.offsets))
        ):
            raise ConfigurationError("Option startingOffsets: a batch that begins at latest reads nothing.")
        if options.limit_records is not None or options.least_records:
            name = "minOffsetsPerTrigger" if options.limit_records is None else "maxOffsetsPerTrigger"
            raise ConfigurationError(
                f"Option {name} works only with spark.readStream: leave it out, and set the end of the "
                f"batch with endingOffsets."
            )
        if options.commits:
            raise ConfigurationError(
                "Option commitOffsets works only with spark.readStream, because Spark may read a batch "
                "several times: leave it out."
            )
        self.options = options

    @reported_in_one_line()
    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks; one without work when there is nothing to read."""
        # Not at the top: workers have no use for what asks the broker.
        from ehkafka.ranges.log import Log  # noqa: PLC0415

        options = self.options
        with Log(options) as log:
            partitions = log.partitions()
            start, end = options.start or AtWord("earliest"), options.end or AtWord("latest")
            ranges = begin.between(start, end, log, partitions, fail=options.fail_on_data_loss)
        pieces = pieces_between(*ranges)
        shares = plan(pieces, options.tasks, split=options.split)
        return [SourcePartition(share) for share in shares or [[]]]


class StreamReaderParts(PiecesReader, DataSourceStreamReader):
    """Everything but `latestOffset`, whose shape depends on PySpark's version."""

    def __init__(self, options: SourceOptions) -> None:
        if options.end is not None:
            raise ConfigurationError(
                "Options ending… work only with spark.read, because a stream has no end. Leave them out, "
                "or use Trigger.AvailableNow."
            )
        self.options = options

    @cached_property
    def _log(self) -> Log:
        # Not at the top: workers have no use for what asks the broker.
        from ehkafka.ranges.log import Log  # noqa: PLC0415

        return Log(self.options)

    @cached_property
    def _commits(self) -> QueryCommits | None:
        if not self.options.commits:
            return None
        from ehkafka.spark.source.commits import QueryCommits  # noqa: PLC0415 - a third of the framework

        # Asked of the broker first: what is wrong with the way there has its own words.
        return QueryCommits(self.options, self._log.partitions()[0].topic)

    @cached_property
    def _stream(self) -> Stream:
        return Stream(self.options, self._log)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    @reported_in_one_line()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Return the constant before batch 0; `Stream` says why it names no position."""
        return self._stream.initial()

    def batch_end(self, start: dict[str, Any], limit_records: int | None) -> dict[str, Any]:
        """Return the end of the next batch, `start` itself when there is nothing new.

        What `latestOffset` of every PySpark comes to; the engine's reader adds when there is no next batch.
        PySpark's `commit` is not used: it comes one batch late, and not at all for the last one.
        """
        commits = self._commits
        if commits is not None:
            # Before the next question, which may end the query.
            commits.finished(start)
        end = self._stream.latest(start, limit_records)
        if commits is not None and end == start:
            commits.rest(is_last=self._stream.ends_here)
        return end

    @reported_in_one_line()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        pieces = self._stream.pieces(start, end)
        return [
            SourcePartition(share) for share in plan(pieces, self.options.tasks, split=self.options.split)
        ]

    def stop(self) -> None:
        """Close what the driver opened."""
        self._log.close()
        if "_commits" in vars(self) and self._commits is not None:
            self._commits.close()


class RefusedStream(DataSourceStreamReader):
    """A stream that cannot be read, and says why when it is first asked where it begins or ends."""

    def __init__(self, why: str) -> None:
        self._why = why

    @reported_in_one_line()
    def _refuse(self, *_: object) -> Any:
        raise ConfigurationError(self._why)

    # PySpark asks for the beginning first, unless a checkpoint has it; then for an end, or for the tasks of a
    # batch that was not finished.
    initialOffset = latestOffset = partitions = read = _refuse  # type: ignore[assignment]  # noqa: N815
