"""Arrow batches as JSON lines: one object a row, all columns in every row, UTF-8.

Spark's own `to_json` decides the forms where it has one: binary as base64, decimals as numbers, maps as
objects, NaN and the infinities as the text `NaN`, `Infinity`, `-Infinity`. Times with a zone are UTC with a
`Z`. Text that is not UTF-8 has U+FFFD for what cannot be read, and years beyond 1 to 9999 have a sign, as in
`+12026-11-22`: what a hostile producer writes must not end the query. Intervals are what Python shows. Pure
but for what it is given to write to.
"""

from __future__ import annotations

import base64
import gzip
from decimal import Decimal
from typing import TYPE_CHECKING

import orjson

from ehkafka.spark.sink.json_values import json_rows

if TYPE_CHECKING:
    from io import RawIOBase

    import pyarrow as pa

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_GZIP_LEVEL = 5


class JsonLinesWriter:
    """Writes batches to a file; `compression` is none or gzip."""

    def __init__(self, file: RawIOBase, compression: str) -> None:
        self._gzip: gzip.GzipFile | None = None
        if compression == "gzip":
            # Without a time, so that equal rows make equal bytes.
            self._gzip = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0)
        self._file = self._gzip or file

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch's rows."""
        self._file.write(b"".join(orjson.dumps(row, _encoded, _OPTIONS) for row in json_rows(batch)))

    def close(self) -> None:
        """Write what compression still holds."""
        if self._gzip is not None:
            self._gzip.close()


def _encoded(value: object) -> object:
    """Return what orjson cannot write by itself."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    # Intervals: whatever Python shows.
    return str(value)
