"""`ehkafka run --engine spark`: its options, what they may not be together, and the run."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ehkafka.cli.options import only_with
from ehkafka.errors import ConfigurationError
from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka import App


class Engine(enum.Enum):
    """Where handlers run."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkArguments:
    """What was given for Spark."""

    engine: Annotated[
        Engine,
        typer.Option(
            "--engine", help="Run handlers in this process (local), or in the tasks of a Spark query (spark)."
        ),
    ] = Engine.LOCAL
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="The URL of Spark's master. Default: the one in Spark's configuration, else all cores of "
            "this machine.",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="The folder of Spark's checkpoint. Without it each start begins at the group's commits.",
        ),
    ] = None
    new_checkpoint: Annotated[
        bool,
        typer.Option(
            "--new-checkpoint", help="Begin at the group's commits and ignore the checkpoint in DIR."
        ),
    ] = False
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop when all records present at the start are handled.")
    ] = False
    interval_s: Annotated[
        float | None,
        typer.Option(
            "--batch-interval", metavar="SECONDS", help="Seconds between the starts of two batches.", min=0.0
        ),
    ] = None
    batch_records: Annotated[
        int | None,
        typer.Option(
            "--batch-records", metavar="N", help="The most records in a batch.", min=1, show_default="200000"
        ),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf", metavar="NAME=VALUE", help="A Spark property; may be given several times."
        ),
    ] = None

    source_option: Annotated[
        list[str] | None,
        typer.Option(
            "--source-option",
            metavar="NAME=VALUE",
            help='An option of format("ehkafka"), such as tasks=8; may be given several times.',
        ),
    ] = None

    @property
    def is_wanted(self) -> bool:
        """Whether it runs on Spark."""
        return self.engine is Engine.SPARK

    def check(self) -> None:
        """Refuse Spark's options for another engine, and without each other. Raises `ConfigurationError`."""
        if not self.is_wanted:
            only_with("--engine spark", self, but=("engine",))
        if self.new_checkpoint and self.checkpoint is None:
            raise ConfigurationError(
                "--new-checkpoint needs --checkpoint: without a checkpoint each start begins at the "
                "group's commits anyway."
            )
        if self.available_now and self.interval_s is not None:
            raise ConfigurationError(
                "--available-now and --batch-interval exclude each other: leave one out."
            )

    def properties(self) -> dict[str, str]:
        """Return Spark's properties by name. Raises `ConfigurationError`."""
        return _named("--spark-conf", self.spark_conf, "spark.some.name=value", begins="spark.")

    def choices(self) -> dict[str, object]:
        """Return what `App.run_on_spark` is given. Raises `ConfigurationError`."""
        given = {
            "interval_s": self.interval_s,
            "max_records_per_batch": self.batch_records,
            "source_options": _named("--source-option", self.source_option, "name=value") or None,
        }
        return {
            "checkpoint": self.checkpoint,
            "new_checkpoint": self.new_checkpoint,
            "available_now": self.available_now,
            **{name: value for name, value in given.items() if value is not None},
        }


def _named(option: str, given: list[str] | None, example: str, begins: str = "") -> dict[str, str]:
    found = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals and name.startswith(begins)):
            raise ConfigurationError(f"{option} {name!r}: write it as {example}.")
        found[name] = value
    return found


def run_on_spark(app: App, path: str, given: SparkArguments, http: object = None) -> None:
    """Run an app on Spark until a signal stops it or it ends: a session, the query, and what it did.

    Raises what ended it.
    """
    from ehkafka.spark.engine.command import run_until_stopped  # noqa: PLC0415 - an extra

    file = Path(path.partition(":")[0])
    # What was named as a file is not installed on executors.
    files = (file.resolve(),) if file.suffix == ".py" else ()
    typer.echo("Starting Spark, which takes some seconds.", err=True)
    conf, choices = given.properties(), given.choices()
    run = run_until_stopped(app, master=given.master, conf=conf, files=files, http=http, **choices)
    counts = ", ".join(f"{number} {name.replace('_', '-')}" for name, number in run.counts.items() if number)
    batches = counted(run.batches, "batch", "batches")
    typer.echo(f"Spark ended after {batches}: {counts or 'no records'}.", err=True)
