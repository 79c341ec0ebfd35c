"""What Spark looks up for `format("ehkafka-blob")`, and the writer that it asks for.

Spark makes it in a process of the driver's, checks it there and pickles the writer for the executors; the
commit of each batch runs in such a process again. So neither keeps anything but options, and no secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import datasource

from ehkafka.errors import ConfigurationError
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.sink.columns import check_columns
from ehkafka.spark.sink.container import opened
from ehkafka.spark.sink.options import sink_options

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence
    from typing import NoReturn

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ehkafka.spark.sink.options import SinkOptions


@dataclass(frozen=True)
class Staged(datasource.WriterCommitMessage):
    """What a task tells the driver: the blocks of one blob, in order. Pickled by Spark; holds no secret.

    There are none, and no blob, when the task had no rows.
    """

    query: str
    batch: int
    partition: int
    blob: str
    blocks: tuple[str, ...]
    rows: int
    size_bytes: int


class BlobDataSource(datasource.DataSource):
    """Writes streams, and nothing else."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Spark tells afterwards whether it writes or reads: a reader hears of that before the options.
        self._refusal: str | None = None
        try:
            self._settings: SinkOptions | None = sink_options(options)
        except ConfigurationError as error:
            self._settings, self._refusal = None, str(error)
        # What was given is not kept, so that a secret among it gets no further.
        super().__init__({})

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return "ehkafka-blob"

    @reported_in_one_line()
    def streamWriter(self, schema: StructType, overwrite: bool) -> BlobStreamWriter:  # noqa: N802 - of Spark
        """Return a query's writer. Raises `EhkafkaError` for what cannot be written, or not there."""
        if overwrite:
            raise ConfigurationError(
                "ehkafka-blob has no output mode complete, because each batch would replace all others. Use "
                "the output mode append. An aggregate then needs withWatermark: each window is written once, "
                "when the window has ended"
            )
        settings = self._settings
        if settings is None:
            raise ConfigurationError(self._refusal)
        check_columns(schema, settings.file_format)
        opened(settings.place).see(settings.marker)
        return BlobStreamWriter(settings)

    @reported_in_one_line()
    def schema(self) -> NoReturn:
        """Refuse to be read."""
        raise ConfigurationError(
            "ehkafka-blob only writes streams: read its blobs with spark.read.json or spark.read.parquet"
        )

    @reported_in_one_line()
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002 - Spark's arguments
        """Refuse a batch query: it has no number to name blobs by."""
        raise ConfigurationError(
            "ehkafka-blob works only with writeStream, because a streaming batch's number names its blobs. "
            "For a batch query, use readStream, and writeStream with trigger(availableNow=True)"
        )


class BlobStreamWriter(datasource.DataSourceArrowWriter, datasource.DataSourceStreamWriter):
    """`write` runs on executors, `commit` and `abort` on the driver.

    A class of both kinds gets Arrow batches from PySpark 4.0 on.
    """

    def __init__(self, settings: SinkOptions) -> None:
        self._settings = settings

    @reported_in_one_line()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one task."""
        from ehkafka.spark.sink.stage import stage  # noqa: PLC0415 - the driver's processes do without it

        return stage(self._settings, iterator)

    @reported_in_one_line()
    def commit(self, messages: Sequence[Staged | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803 - Spark's name
        """Make a batch visible."""
        from ehkafka.spark.sink.commit import commit  # noqa: PLC0415 - executors do without it

        commit(self._settings, messages, batchId)

    def abort(self, messages: Sequence[Staged | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        """Leave it: readers never see staged blocks, and the service discards them after a week.

        What a commit that broke off had made visible is replaced when Spark replays the batch.
        """
