"""Options of `ehkafka run --reload`, and what they may not be together. Read by typer and by `run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ehkafka.cli.spark_options import Engine
from ehkafka.errors import ConfigurationError

ReloadOption = Annotated[
    bool, typer.Option("--reload", help="For development: start again when a Python file changes.")
]
ReloadDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--reload-dir",
        metavar="DIR",
        help="Watch this folder instead of the current one; may be given several times.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadGiven:
    """What was given for a reload."""

    is_wanted: bool
    folders: tuple[Path, ...]

    def check(self, engine: Engine, members: str | None) -> None:
        """Refuse what cannot be together. Raises `ConfigurationError`."""
        if not self.is_wanted:
            if self.folders:
                raise ConfigurationError("--reload-dir is for --reload: add that, or leave it out.")
            return
        if members is not None:
            raise ConfigurationError(
                "--reload and --members exclude each other: leave one out. Members are replaced one by one, "
                "with new code, at a SIGHUP."
            )
        if engine is Engine.SPARK:
            raise ConfigurationError(
                "--reload and --engine spark exclude each other: leave one out. A session takes longer to "
                "start than an app to stop, so try the app without Spark first."
            )
        for folder in self.folders:
            if not folder.is_dir():
                raise ConfigurationError(f"--reload-dir {folder}: there is no such folder.")

    def watched(self, app: str) -> tuple[Path, ...]:
        """Return the folders to watch: the given ones, else the current one and that of the app's file."""
        if self.folders:
            return self.folders
        here, file = Path.cwd(), Path(app.partition(":")[0])
        own = file.resolve().parent
        return (here,) if file.suffix != ".py" or own.is_relative_to(here) else (here, own)
