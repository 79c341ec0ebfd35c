"""The reader of `spark.read`: a range of each partition, planned once.

`partitions` is called in Spark's planning process, `read` in workers; both on one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from ehkafka.errors import ConfigurationError
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source import begin
from ehkafka.spark.source.loss import Loss
from ehkafka.spark.source.planning import pieces_between, plan
from ehkafka.spark.source.reader_parts import PiecesReader, SourcePartition
from ehkafka.spark.source.start import LATEST, AtOffsets, AtWord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition

    from ehkafka.spark.source.log import Log
    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.spark.source.planning import Piece


class SourceBatchReader(PiecesReader, DataSourceReader):
    """Reads what lies between two places of the log."""

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
                f"Option {name} belongs to spark.readStream: leave it out; endingOffsets is the end of a"
                " batch."
            )
        if options.commits:
            raise ConfigurationError(
                "Option commitOffsets belongs to spark.readStream: leave it out; a batch may be read often."
            )
        self.options = options

    @reported_in_one_line()
    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks; one without work when there is nothing to read."""
        # Not at the top: workers have no use for what asks the broker.
        from ehkafka.spark.source.log import Log  # noqa: PLC0415

        with Log(self.options) as log:
            pieces = self._pieces(log)
        shares = plan(pieces, self.options.tasks, split=self.options.split)
        return [SourcePartition(share) for share in shares or [[]]]

    def _pieces(self, log: Log) -> list[Piece]:
        options, partitions = self.options, log.partitions()
        starts = begin.offsets_of(options.start or AtWord("earliest"), log, partitions)
        ends = begin.offsets_of(options.end or AtWord("latest"), log, partitions)
        first = log.starts(partitions)
        for partition, at in starts.items():
            if at > ends[partition]:
                raise ConfigurationError(
                    f"{partition}: the query would begin at offset {at} and end at {ends[partition]}, before"
                    " it. Correct the options starting… and ending…"
                )
            if at < first[partition] and at < ends[partition]:
                loss = Loss(partition, at, ends[partition], first[partition], ends[partition])
                loss.lost.settle(fail=options.fail_on_data_loss)
                starts[partition] = loss.resume_at
        return pieces_between(starts, ends)
