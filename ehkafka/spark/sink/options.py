"""The sink's options as values: checked on the driver before anything runs, pickled to the executors.

Pure. Holds no secret: those are named (`connectionStringEnv`), and a literal one is refused with that
advice. Spark gives the names of options in lower case; errors show them as the documentation does. The names
of blobs follow from them:

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
from ehkafka.spark.secrets import is_secret_name, may_be_secret
from ehkafka.spark.sink.place import PLACE_OPTIONS, Place

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
# What Spark itself puts among a sink's options.
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "truncate", "outputmode"})


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
    options = {name.lower(): str(value).strip() for name, value in given.items()}
    for name, value in options.items():
        if is_secret_name(name) or may_be_secret(value):
            raise ConfigurationError(
                f"Option {name!r} gives a secret, and Spark shows options in plans and logs: name it "
                "instead, by connectionStringEnv or containerUrlEnv (a variable of driver and executors), "
                "connectionStringFile or containerUrlFile (a path), or credentialFactory (module:function)"
            )
    known = {name.lower(): name for name in (*_OWN_OPTIONS, *PLACE_OPTIONS)}
    for name in options.keys() - known.keys() - _OF_SPARK:
        raise ConfigurationError(
            f"ehkafka-blob has no option {name!r}; its options are {', '.join(sorted(known.values()))}"
        )
    named = {known[name]: value for name, value in options.items() if name in known}
    file_format = _file_format(named.get("fileFormat", "jsonl"))
    return SinkOptions(
        place=Place.from_options(named),
        path=_path(named.get("path", "")),
        file_format=file_format,
        compression=_compression(named.get("compression"), file_format),
        block_bytes=_block_bytes(named.get("blockBytes", str(BLOCK_BYTES))),
    )


def _path(text: str) -> str:
    path = text.strip("/")
    parts = path.split("/")
    if "://" in text:
        raise ConfigurationError(
            "Option path is a folder inside the container, no URL: give the container by containerUrl or "
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


def _file_format(text: str) -> FileFormat:
    if text.lower() not in COMPRESSIONS:
        raise ConfigurationError(f"Option fileFormat is one of {', '.join(COMPRESSIONS)}, not {text!r}")
    return cast("FileFormat", text.lower())


def _compression(text: str | None, file_format: FileFormat) -> str:
    possible = COMPRESSIONS[file_format]
    chosen = possible[0] if text is None else text.lower()
    if chosen not in possible:
        raise ConfigurationError(
            f"Option compression is one of {', '.join(possible)} for {file_format}, not {text!r}"
        )
    return chosen


def _block_bytes(text: str) -> int:
    least, most = BLOCK_BYTES_RANGE
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
    if not least <= count <= most:
        raise ConfigurationError(
            f"Option blockBytes is a number of bytes from {least} to {most}, not {text!r}"
        )
    return count
