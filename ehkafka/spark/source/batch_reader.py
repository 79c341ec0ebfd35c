"""The reader of `spark.read`: a range of each partition, planned once.

`partitions` is called in Spark's planning process, `read` in workers; both on one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from ehkafka.errors import ConfigurationError
from ehkafka.ranges import begin
from ehkafka.ranges.places import LATEST, AtOffsets, AtWord, pieces_between
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source.planning import plan
from ehkafka.spark.source.reader_parts import PiecesReader, SourcePartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition

    from ehkafka.spark.source.options import SourceOptions


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
        from ehkafka.ranges.log import Log  # noqa: PLC0415

        options = self.options
        with Log(options) as log:
            partitions = log.partitions()
            start, end = options.start or AtWord("earliest"), options.end or AtWord("latest")
            ranges = begin.between(start, end, log, partitions, fail=options.fail_on_data_loss)
        pieces = pieces_between(*ranges)
        shares = plan(pieces, options.tasks, split=options.split)
        return [SourcePartition(share) for share in shares or [[]]]
