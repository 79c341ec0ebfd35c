"""`ehkafka run --engine spark`, on the main thread: a session, the query, and what it did when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka import App
    from ehkafka.cli.spark_options import SparkGiven


def run_on_spark(app: App, path: str, given: SparkGiven) -> None:
    """Run an app on Spark until a signal stops it or it ends. Raises what ended it."""
    from ehkafka.spark.engine.command import run_until_stopped  # noqa: PLC0415 - an extra

    file = Path(path.partition(":")[0])
    # What was named as a file is not installed on executors.
    files = (file.resolve(),) if file.suffix == ".py" else ()
    typer.echo("Starting Spark, which takes some seconds.", err=True)
    run = run_until_stopped(app, master=given.master, conf=given.properties(), files=files, **given.choices())
    counts = ", ".join(f"{number} {name.replace('_', '-')}" for name, number in run.counts.items() if number)
    batches = counted(run.batches, "batch", "batches")
    typer.echo(f"Spark ended after {batches}: {counts or 'no records'}.", err=True)
