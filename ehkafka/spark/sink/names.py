"""Where the sink writes: the names of blobs. Pure.

```
<path>/_ehkafka.json                              whose path this is: the id of one streaming query
<path>/batch=000000000007/part-00003.jsonl        rows of one task (or .jsonl.gz, .parquet)
<path>/batch=000000000007/_manifest.json          written last: the batch is complete, and these are its blobs
```

A reader that wants whole batches alone reads the blobs that manifests name. Readers of folders (Spark,
DuckDB, pandas) skip names that begin with `_`, and take `batch` for a column.
"""

from __future__ import annotations

MARKER = "_ehkafka.json"
MANIFEST = "_manifest.json"


def marker_blob(path: str) -> str:
    """Return the blob that says which query writes below a path."""
    return f"{path}/{MARKER}"


def batch_folder(path: str, batch: int) -> str:
    """Return what the names of a batch's blobs begin with; as text they sort like the batches."""
    return f"{path}/batch={batch:012d}/"


def manifest_blob(path: str, batch: int) -> str:
    """Return the blob whose presence means that a batch is complete."""
    return batch_folder(path, batch) + MANIFEST


def data_blob(path: str, batch: int, partition: int, ending: str) -> str:
    """Return the blob for the rows of one task."""
    return f"{batch_folder(path, batch)}part-{partition:05d}.{ending}"
