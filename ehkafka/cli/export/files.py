"""The files of an export: one, or one for each day or partition.

Memory does not grow with what is written: rows wait up to a limit, and only so many files are open. pyarrow's
dataset writer would do less: Ctrl-C ends it only after its last row, a range without records gets no file,
and it writes no NDJSON.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ehkafka.cli.export.target import FileFormat, FoldersBy
from ehkafka.cli.output import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ehkafka.cli.export.target import ExportTarget

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Rows wait so that Parquet gets large row groups, which are smaller on the disk and quicker to read."""
OPEN_FILES_MAX: Final = 64
"""Each needs memory and a descriptor; a producer's timestamps may name any number of days."""
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive, Spark and pyarrow name the folder of null."""
_CALENDAR = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class JsonRows:
    """One JSON object a line; bytes that are no UTF-8 become `{"base64": "…"}`."""

    def __init__(self, sink: IO[bytes], _schema: pa.Schema) -> None:
        self._sink = sink

    def write_table(self, table: pa.Table) -> None:
        """Write a line for each row."""
        option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
        for row in zip(*map(_values, table.columns), strict=True):
            line = dict(zip(table.column_names, row, strict=True))
            self._sink.write(orjson.dumps(line, default=plain, option=option))

    def close(self) -> None:
        """Lines have no end of their own."""


WRITERS: Final[Mapping[FileFormat, Callable[[IO[bytes], pa.Schema], Any]]] = {
    FileFormat.PARQUET: partial(pq.ParquetWriter, compression="zstd"),
    FileFormat.NDJSON: JsonRows,
    FileFormat.ARROW: pa.ipc.new_file,
}


class ExportFiles:
    """Writes batches into one file, or into `day=2026-01-31/part-0.parquet` and the like in a folder.

    What a folder's name has is no column of its files, as with Hive and Spark. Methods raise `OSError`.
    """

    def __init__(self, target: ExportTarget, path: Path, schema: pa.Schema, names: Sequence[str]) -> None:
        self._target = target
        self._path = path
        # The partition of a folder is in its name; there is no column "day".
        self._schema = pa.schema([schema.field(name) for name in names if name != target.by])
        # By folder, as are the files; the file that was written last is the last one.
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._waiting_bytes = 0
        self._open: dict[str, tuple[Any, IO[bytes]]] = {}
        self._made: Counter[str] = Counter()

    def __enter__(self) -> Self:
        if self._target.by is None:
            self._writer("")  # no record makes an empty file, too
        else:
            self._path.mkdir()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        try:
            if kind is None:
                self._flush()
                while self._open:
                    self._end(next(iter(self._open)))
        finally:
            for writer, sink in self._open.values():  # after an error, which is the one to report
                with suppress(Exception), sink:
                    writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        for folder, rows in self._parts(batch):
            self._waiting.setdefault(folder, []).append(rows.select(self._schema.names))
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self._flush()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        by = self._target.by
        if by is None:
            yield "", batch
            return
        is_day = by is FoldersBy.DAY
        values = batch["timestamp"].cast(pa.date32()).cast(pa.int32()) if is_day else batch["partition"]
        for value in values.unique():
            found = value.as_py()
            rows = batch.filter(pc.is_null(values) if found is None else pc.equal(values, value))
            yield f"{by}={_day(found) if is_day else found}", rows

    def _flush(self) -> None:
        for folder, batches in self._waiting.items():
            self._writer(folder).write_table(pa.Table.from_batches(batches))
        self._waiting, self._waiting_bytes = {}, 0

    def _writer(self, folder: str) -> Any:
        if folder not in self._open:
            if len(self._open) >= OPEN_FILES_MAX:
                self._end(next(iter(self._open)))
            path = self._path
            if folder:
                (path / folder).mkdir(exist_ok=True)
                path = path / folder / f"part-{self._made[folder]}.{self._target.format}"
                self._made[folder] += 1
            sink = path.open("wb")
            self._open[folder] = WRITERS[self._target.format](sink, self._schema), sink
        self._open[folder] = self._open.pop(folder)
        return self._open[folder][0]

    def _end(self, folder: str) -> None:
        writer, sink = self._open[folder]
        with sink:
            writer.close()
            sink.flush()
            os.fsync(sink.fileno())  # some file systems report that they are full only then
        del self._open[folder]


def _day(days: int | None) -> str:
    """Return the day that is so many days after 1970-01-01, as a folder's name has it."""
    with suppress(OverflowError):
        if days is not None:
            return (date(1970, 1, 1) + timedelta(days)).isoformat()
    return NO_DAY


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; a timestamp that no calendar has is None, as `ehkafka tail` shows it."""
    if pa.types.is_timestamp(column.type):
        first, last = (pa.scalar(moment, column.type) for moment in _CALENDAR)
        is_known = pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))
        column = pc.if_else(is_known, column, pa.scalar(None, column.type))
    values: list[Any] = column.to_pylist()
    return values
