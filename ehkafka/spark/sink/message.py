"""What a task tells the driver: which blocks it has staged. Pickled by Spark, so it holds no secret."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The blocks of one blob, in order; none, and no blob, when the task had no rows."""

    query: str
    batch: int
    partition: int
    blob: str
    blocks: tuple[str, ...]
    rows: int
    size_bytes: int
