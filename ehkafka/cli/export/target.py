"""Where an export goes: a file or a folder, checked before the broker is asked.

A file under the asked name is whole. An export writes into a folder next to it, whose name ends with `.part`,
and renames at its end. Ctrl-C, SIGTERM and errors remove that folder; kill -9 leaves it.
"""

from __future__ import annotations

import enum
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ehkafka.errors import ConfigurationError, EndpointError

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileFormat(enum.StrEnum):
    """What `--format` takes; files end with these, too."""

    PARQUET = "parquet"
    NDJSON = "ndjson"
    ARROW = "arrow"


class FoldersBy(enum.StrEnum):
    """What `--by` takes."""

    DAY = "day"
    PARTITION = "partition"


class DiskError(EndpointError):
    """The disk does not take a file. Free space, or another folder, may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTarget:
    """Where the files go."""

    to: Annotated[
        str, typer.Option(metavar="FILE", help="The file to write; with --by, the folder to write.")
    ]
    chosen_format: Annotated[
        FileFormat | None,
        typer.Option(
            "--format", help="The format of the file. Default: the one that the end of its name shows."
        ),
    ] = None
    by: Annotated[
        FoldersBy | None,
        typer.Option(help="Write a folder with a file for each day (UTC), or for each partition."),
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False

    @property
    def format(self) -> FileFormat:
        """What the option names, or the end of `to`; of a folder Parquet. Raises `ConfigurationError`."""
        try:
            return self.chosen_format or FileFormat(Path(self.to).suffix.lower().removeprefix("."))
        except ValueError:
            if self.by:
                return FileFormat.PARQUET
            raise ConfigurationError(
                f"The name in --to {self.to!r} must end with one of .{', .'.join(FileFormat)}: change it, "
                f"or add --format."
            ) from None

    @property
    def path(self) -> Path:
        """The path; a link's own target, so that the link stays."""
        return Path(self.to).resolve()

    def check(self) -> None:
        """Refuse a name that is taken or cannot be used. Raises `ConfigurationError` or `DiskError`."""
        if "://" in self.to:  # not repeated: it may hold a key
            raise ConfigurationError(
                "--to is a URL, but the command writes only files: give a file or a folder of this "
                "machine. For Blob Storage, see docs/guides/tables.md."
            )
        _ = self.format
        with self._explained():
            is_there = self.path.exists()
            if not self.path.parent.is_dir():
                raise ConfigurationError(
                    f"--to {self.to!r} is in a folder that does not exist: create that folder."
                )
            if is_there and (self.by or not self.path.is_file()):
                raise ConfigurationError(
                    f"{self.to} exists, and --overwrite replaces only a file by a file: choose another name, "
                    f"or remove {self.to}."
                )
            if is_there and not self.overwrite:
                raise ConfigurationError(
                    f"The file {self.to} exists: choose another name, or add --overwrite."
                )

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """Yield a path to write to, which gets the target's name if the block ends without an error.

        Raises `DiskError` for every `OSError` of the block.
        """
        with self._explained():
            folder = Path(tempfile.mkdtemp(".part", f"{self.path.name}.", self.path.parent))
            try:
                yield folder / self.path.name
                self.check()
                (folder / self.path.name).replace(self.path)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise DiskError(
                f"{self.to} was not written: {reason}. Free space there, or write to another folder."
            ) from None
