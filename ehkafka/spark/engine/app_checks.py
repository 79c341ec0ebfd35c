"""What an app may have on one machine and cannot have on Spark, each with the reason and the fix.

Called on the driver before anything is opened. A batch ends only when each of its records has an
outcome, and its tasks know nothing of each other: all refusals follow from these two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.output_types import check_output_types
from ehkafka.recovery.policy import DeadLetter, Hold
from ehkafka.recovery.retry import Retry
from ehkafka.workers.processes.option import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Settings
    from ehkafka.spark.source.options import SourceOptions

_PROGRESS_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
# Batches that may finish while the run waits for the broker.
PROGRESS_KEPT_MIN = 50


def check_app(app: AppOptions) -> None:
    """Refuse what cannot run on Spark. Raises `ConfigurationError` that names it and the fix."""
    if not app.specs:
        raise ConfigurationError("The app has no handler; register one with @app.handler('topic').")
    for spec in app.specs:
        for reason in _reasons(spec):
            raise ConfigurationError(f"On Spark, handler {spec.name!r}: {reason}")
    check_output_types(app.specs)
    for reason in _setting_reasons(app.settings):
        raise ConfigurationError(f"On Spark, {reason}")
    if app.partition_hooks.on_idle is not None:
        raise ConfigurationError(
            "On Spark, on_idle is never called, because Spark runs no batch without records. Leave on_idle "
            "out, or look at SparkRun.query.lastProgress."
        )


def check_session(spark: Any) -> None:
    """Refuse a session in which order could not be kept. Raises `ConfigurationError`."""
    if not hasattr(spark, "_jsparkSession"):
        raise ConfigurationError(
            "run_on_spark needs a classic Spark session on the driver, because a Spark Connect client "
            "cannot follow the query. Start the program with spark-submit, or use format('ehkafka') with "
            "Spark Connect."
        )
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise ConfigurationError(
            "spark.speculation=true would run the handlers of one partition twice at the same time, and mix "
            "what the two send. Set it to false for this session."
        )
    kept = str(spark.conf.get(_PROGRESS_KEPT, "100"))
    if not kept.isdecimal() or int(kept) < PROGRESS_KEPT_MIN:
        raise ConfigurationError(
            f"{_PROGRESS_KEPT}={kept} keeps too few progress reports to know which batches have finished. "
            f"Give "
            f"{PROGRESS_KEPT_MIN} or more; Spark's own default is 100."
        )
    kills = _setting(spark, "killOnIdleTimeout", "false").lower() == "true"
    if kills and _setting(spark, "idleTimeoutSeconds", "0") not in {"0", "0s"}:
        raise ConfigurationError(
            "spark.python.worker.killOnIdleTimeout=true would end every batch that takes longer than the "
            "idle time, because a task sends nothing until it has ended. Set this property and "
            "spark.sql.execution.pyspark.udf.killOnIdleTimeout to false for this session. To limit a "
            "handler's calls, set deadline_s."
        )


def check_source(options: SourceOptions) -> None:
    """Refuse what would hand a partition to several tasks. Raises `ConfigurationError`."""
    if options.split:
        raise ConfigurationError(
            "source_options: splitPartitions=true would lose the order of a partition: leave it out."
        )


def _setting(spark: Any, name: str, default: str) -> str:
    """Return a setting of Spark's Python workers: a session's own, or else the application's."""
    usual = spark.conf.get(f"spark.python.worker.{name}", default)
    return str(spark.conf.get(f"spark.sql.execution.pyspark.udf.{name}", usual))


def _reasons(spec: HandlerSpec) -> Iterator[str]:
    policy = spec.on_failure
    if isinstance(policy, Hold):
        yield (
            "on_failure=Hold() keeps a record without an outcome, and its batch would never end. Use Stop(), "
            "Skip() or DeadLetter(…)."
        )
    if isinstance(policy, DeadLetter) and policy.after == "hold_key":
        yield (
            "DeadLetter(after='hold_key') keeps a key's next records without an outcome, and their batch "
            "would never end. Use after='continue' or 'divert_key', which holds until the batch ends."
        )
    if isinstance(policy, DeadLetter) and policy.on_limit == "hold":
        yield (
            "DeadLetter(on_limit='hold') keeps records without an outcome, and their batch would never "
            "end. Use on_limit='stop'."
        )
    if isinstance(spec.retry, Retry) and spec.retry.attempts is None:
        yield "Retry(attempts=None) never ends, so neither would its batch. Give a number of attempts."
    if spec.scope == "handler":
        yield (
            "scope='handler' makes one lane of a key in all partitions, and on Spark partitions are in "
            "different processes. Use scope='partition', and have producers send a key to one partition."
        )
    if spec.rate_limit is not None:
        yield (
            "rate_limit= counts the calls of one process, and Spark runs several. Leave it out; "
            "max_records_per_batch with a trigger interval bounds the whole query."
        )
    if isinstance(spec.workers, Processes) and spec.deadline_s is not None:
        yield (
            "deadline_s= ends a worker process of ours, and on Spark the task's own process runs the "
            "handler. Leave deadline_s out, or make the handler an async def."
        )


def _setting_reasons(settings: Settings) -> Iterator[str]:
    if settings.on_out_of_range == "latest":
        yield (
            "on_out_of_range='latest' would skip what the log still holds of a planned batch. Use 'stop' or "
            "'earliest'."
        )
    if settings.on_parked_full != "pause_partition":
        yield (
            f"on_parked_full={settings.on_parked_full!r} does not apply: retries end within their batch, and "
            "reading waits for them. Use 'pause_partition'."
        )
    if settings.exactly_once:
        yield (
            "exactly_once is not possible: a batch's tasks send from several processes, and Spark keeps the "
            "offsets. Leave it out, and write to a sink that names what it writes by batch and partition."
        )
    if settings.reset is True:
        yield (
            "reset=True would begin anew at every start of the query. Give the reset a name, reset='june', "
            "or move the group once: ehkafka offsets reset."
        )
