"""What Spark hands to a task: the pieces that it reads. Picklable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.spark.source.planning import Piece


class SourcePartition(InputPartition):
    """The work of one task, perhaps none."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)
