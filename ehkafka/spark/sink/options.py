"""The sink's options as values: checked on the driver before anything runs, pickled to the executors.

Pure. Holds no secret: those are named, as by `connectionStringEnv`. The names of blobs follow from them:

```
<path>/_ehkafka.json                              whose path this is: the id of one streaming query
<path>/batch=000000000007/part-00003.jsonl        rows of one task (or .jsonl.gz, .parquet)
<path>/batch=000000000007/_manifest.json          written last: the batch is complete, and these are its blobs
```

A reader that wants whole batches alone reads the blobs that manifests name. Readers of folders (Spark,
DuckDB, pandas) skip names that begin with `_`, and take `batch` for a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from ehkafka.errors import ConfigurationError
from ehkafka.spark.option_names import OF_WRITES, OptionNames
from ehkafka.spark.sink.place import PLACE_OPTIONS, Place
from ehkafka.spark.source import option_text

if TYPE_CHECKING:
    from collections.abc import Mapping

FileFormat = Literal["jsonl", "parquet"]

BLOCK_BYTES = 8 * 1024 * 1024
# The service takes 4000 MiB, but a block is held in memory.
BLOCK_BYTES_RANGE = (64 * 1024, 256 * 1024 * 1024)
COMPRESSIONS: Final[Mapping[FileFormat, tuple[str, ...]]] = {
    "jsonl": ("none", "gzip"),
    "parquet": ("snappy", "zstd", "gzip", "none"),
}
_PATH_LENGTH_MAX = 900  # of 1024 characters for a whole name
_OWN_OPTIONS = ("path", "fileFormat", "compression", "blockBytes")
_NAMES = OptionNames(
    (*_OWN_OPTIONS, *PLACE_OPTIONS), refused={}, meant={}, of_spark=OF_WRITES, has_properties=False
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What the sink was given. `path` is a folder of the container, without slashes at its ends."""

    place: Place
    path: str
    file_format: FileFormat
    compression: str
    block_bytes: int

    @property
    def ending(self) -> str:
        """What the names of data blobs end with."""
        return "jsonl.gz" if (self.file_format, self.compression) == ("jsonl", "gzip") else self.file_format

    @property
    def marker(self) -> str:
        """The blob that says which query writes below the path."""
        return f"{self.path}/_ehkafka.json"

    def folder(self, batch: int) -> str:
        """Return what the names of a batch's blobs begin with; as text they sort like the batches."""
        return f"{self.path}/batch={batch:012d}/"

    def manifest(self, batch: int) -> str:
        """Return the blob whose presence means that a batch is complete."""
        return f"{self.folder(batch)}_manifest.json"

    def data_blob(self, batch: int, partition: int) -> str:
        """Return the blob for the rows of one task."""
        return f"{self.folder(batch)}part-{partition:05d}.{self.ending}"


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read the options of `writeStream`. Raises `ConfigurationError` that never repeats a value."""
    options = _NAMES.in_our_spelling(given)
    file_format = cast(
        "FileFormat", option_text.word("fileFormat", options.get("fileFormat", "jsonl"), *COMPRESSIONS)
    )
    known = COMPRESSIONS[file_format]
    return SinkOptions(
        place=Place.from_options(options),
        path=_path(options.get("path", "")),
        file_format=file_format,
        compression=option_text.word("compression", options.get("compression", known[0]), *known),
        block_bytes=_block_bytes(options.get("blockBytes", str(BLOCK_BYTES))),
    )


def _path(text: str) -> str:
    path = text.strip("/")
    parts = path.split("/")
    if "://" in text:
        raise ConfigurationError(
            "Option path is a folder inside the container, not a URL: give the container by containerUrl or "
            "container, and only the folder as path"
        )
    if not path or len(path) > _PATH_LENGTH_MAX or not path.isprintable() or "\\" in path:
        raise ConfigurationError(
            "Option path names the folder in the container that the stream writes to, for instance "
            f".start('homes/minutes'): 1 to {_PATH_LENGTH_MAX} printable characters, no backslash"
        )
    if any(not part or part in {".", ".."} or part[0] == "_" or part.endswith(".") for part in parts):
        raise ConfigurationError(
            f"Option path: {path!r} has a part that is empty, begins with an underscore (readers skip those) "
            "or ends with a dot; choose another folder"
        )
    return path


def _block_bytes(text: str) -> int:
    least, most = BLOCK_BYTES_RANGE
    count = option_text.count("blockBytes", text)
    if not least <= count <= most:
        raise option_text.wrong("blockBytes", text, f"give a number of bytes from {least} to {most}")
    return count
