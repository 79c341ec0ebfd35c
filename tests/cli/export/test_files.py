"""The files of an export, batch by batch: how many are open, and what is in which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from ehkafka.cli.export.files import ExportFiles
from ehkafka.cli.export.target import ExportTarget, FoldersBy

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SCHEMA = pa.schema([pa.field("partition", pa.int32()), pa.field("offset", pa.int64())])


def test_few_files_are_open_and_none_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was written longest ago is ended for a new one; its folder gets another file later."""
    monkeypatch.setattr("ehkafka.cli.export.files.OPEN_FILES_MAX", 2)
    monkeypatch.setattr("ehkafka.cli.export.files.WAITING_BYTES_MAX", 0)
    target = ExportTarget(to="out", by=FoldersBy.PARTITION)
    with ExportFiles(target, tmp_path / "out", SCHEMA, SCHEMA.names) as files:
        for offset, partition in enumerate((0, 1, 0, 2, 0, 1)):
            files.write(pa.RecordBatch.from_pydict({"partition": [partition], "offset": [offset]}, SCHEMA))
            assert len(files._open) <= 2
    parts = sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.rglob("*.parquet"))
    assert parts == [f"partition={name}.parquet" for name in ("0/part-0", "1/part-0", "1/part-1", "2/part-0")]
    rows = ds.dataset(tmp_path / "out", partitioning="hive").to_table(["offset", "partition"]).to_pylist()
    found = sorted((row["offset"], row["partition"]) for row in rows)
    assert found == list(enumerate((0, 1, 0, 2, 0, 1)))
