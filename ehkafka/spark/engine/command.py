"""`ehkafka run --engine spark`: a session, a query, and the signals that stop it.

On the main thread of a driver of our own; a program with a session calls `App.run_on_spark` instead.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.run.signals import stop_signals
from ehkafka.run.spark_options import SparkOptions
from ehkafka.spark.engine.group.reach import ADVICE_FOR_COMMAND
from ehkafka.spark.engine.start import prepared
from ehkafka.spark.java_home import find_java_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from ehkafka.spark.engine.run import SparkRun

_LOG = logging.getLogger("ehkafka.spark")
_WAIT_S = 0.5
# Spark's page listens on every address of the machine: a user who wants it turns it on.
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def run_until_stopped(
    app: Any,
    *,
    master: str | None,
    conf: Mapping[str, str],
    files: tuple[Path, ...] = (),
    http: object = None,
    **choices: Any,
) -> SparkRun:
    """Run an `App` on Spark until a signal stops it or it ends. Raises what is wrong, or what ended it.

    `master` is Spark's; None leaves it to the configuration, or takes this machine's cores. `files` are
    modules that executors elsewhere need; `http` is what `App.run` takes, and served before Spark is there.
    The first SIGINT or SIGTERM lets the running batch end, the second leaves.
    """
    # Before Spark has started, which takes seconds; `App.run_on_spark` does it again.
    prepared(app._options(), SparkOptions(**choices), ADVICE_FOR_COMMAND)  # noqa: SLF001
    with closing(app._life.web.serve(http)), session(master, conf) as spark:  # noqa: SLF001 - as `App.run`
        for file in files:
            spark.sparkContext.addPyFile(str(file))
        folders = tuple(
            dict.fromkeys(str(folder) for folder in (Path.cwd(), *(file.parent for file in files)))
        )
        run: SparkRun | None = None

        def begun() -> SparkRun:
            if run is None:
                raise KeyboardInterrupt
            return run

        with stop_signals(lambda name: begun().request_stop(name), lambda: begun().exit_now()):
            run = app.run_on_spark(spark, folders=folders, **choices)
            # In slices: a wait without end would keep signals from being handled on some platforms.
            while not run.wait(_WAIT_S):
                pass
        return run


@contextmanager
def session(master: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session of our own, ended afterwards.

    Raises `ConfigurationError` where Spark does not start, `MissingExtraError` without Java.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started the driver's Java
        os.environ["JAVA_HOME"] = str(find_java_home())
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("ehkafka")
    if master is not None:
        builder = builder.master(master)
    is_local = (master or "local").startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in {**_QUIET, **(_LOCAL if is_local else {}), **_in_few_lines(), **conf}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        text = " ".join(str(error).split())[:250]
        raise ConfigurationError(
            f"Spark did not start: {text} Check that the master answers (--master local[*] for this "
            f"machine), and that Spark knows the properties in --spark-conf."
        ) from error
    _LOG.info("Spark %s is up, %s.", spark.version, spark.sparkContext.master)
    try:
        yield spark
    finally:
        spark.stop()


def _in_few_lines() -> dict[str, str]:
    """Return what makes Spark log errors alone; nothing where the user may have a log4j2.properties."""
    file = Path(__file__).with_name("log4j2.properties")
    if {"SPARK_CONF_DIR", "SPARK_HOME"} & set(os.environ) or not file.exists():
        return {}
    return {_JAVA_OPTIONS: f"-Dlog4j2.configurationFile={file.as_uri()}"}
