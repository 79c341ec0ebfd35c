"""Starts an app's handlers as a query on Spark, and is what the caller holds of it.

In the caller's thread on the driver: everything that can be known before the first batch is an exception
here, and then nothing runs.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.events import AppStarted
from ehkafka.spark import versions
from ehkafka.spark.engine.checkpoint_folder import CheckpointFolder, Identity
from ehkafka.spark.engine.follow import Follower
from ehkafka.spark.engine.group import Group
from ehkafka.spark.engine.hand_over import check_hand_over
from ehkafka.spark.engine.refusals import check_app, check_session
from ehkafka.spark.engine.results import observed
from ehkafka.spark.engine.shipment import Shipment, pack
from ehkafka.spark.engine.way_in import way_in_options
from ehkafka.spark.shipped import let_planners_import
from ehkafka.spark.source.offsets import encode
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ehkafka.errors import EhkafkaError
    from ehkafka.records import TopicPartition
    from ehkafka.spark.engine.app_parts import AppParts

# Seconds of work for a handler of microseconds, and what a failure repeats.
BATCH_RECORDS_MAX = 200_000
# At 0 an idle query would ask the broker a hundred times a second.
INTERVAL_S = 0.2
# Options of the source that the engine sets, or that would change what its tasks get.
_OWNED = {
    "subscribe", "assign", "groupid", "maxoffsetspertrigger", "failondataloss", "splitpartitions",
    "includeheaders", "columns",
}  # fmt: skip
# How long `stop` waits beyond its own time-out.
_SLACK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoices:
    """How a query runs. Raises `ConfigurationError` for what cannot work.

    `checkpoint` is a folder that the driver can write to; without one each start begins where the group
    stands. `new_checkpoint` begins there although a checkpoint stands elsewhere. `available_now` ends the
    query when what is there at its start is handled; else a batch begins `interval_s` (0.2 by default) after
    the one before began, or when that has ended. `source_options` are options of `format("ehkafka")`, such as
    the way to the broker; `folders` are looked in for modules by executors on this machine.
    """

    checkpoint: str | None = None
    new_checkpoint: bool = False
    available_now: bool = False
    interval_s: float | None = None
    max_records_per_batch: int = BATCH_RECORDS_MAX
    source_options: Mapping[str, str] | None = None
    folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if type(self.max_records_per_batch) is not int or self.max_records_per_batch < 1:
            raise ConfigurationError(
                f"max_records_per_batch={self.max_records_per_batch!r}: give a number of records, 1 or more."
            )
        interval_s = self.interval_s
        is_number = isinstance(interval_s, int | float) and not isinstance(interval_s, bool)
        if interval_s is not None and (not is_number or not 0 <= interval_s < 86_400):
            raise ConfigurationError(
                f"interval_s={self.interval_s!r}: give the seconds between two batches, 0 or more."
            )
        if self.available_now and self.interval_s is not None:
            raise ConfigurationError("available_now and interval_s exclude each other: leave one out.")
        if self.new_checkpoint and self.checkpoint is None:
            raise ConfigurationError(
                "new_checkpoint needs checkpoint=: without one each start begins where the group stands "
                "anyway."
            )
        for name in self.source_options or ():
            if name.lower() in _OWNED or name.lower().startswith(("starting", "ending")):
                raise ConfigurationError(
                    f"source_options: {name} is the engine's own; the app and the other arguments say what "
                    "it is. "
                    "Leave it out."
                )
        if self.checkpoint is not None and not str(self.checkpoint).strip():
            raise ConfigurationError("checkpoint is empty: give a folder, or leave it out.")


class SparkRun:
    """One query that runs an app's handlers. Its methods may be called from any thread."""

    def __init__(self, query: StreamingQuery, follower: Follower) -> None:
        self.query = query
        self._follower = follower

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._follower.done.is_set()

    @property
    def failure(self) -> EhkafkaError | None:
        """What ended it, if it was an error."""
        return self._follower.failure

    @property
    def counts(self) -> Mapping[str, int]:
        """How many records finished batches had: received, finished, skipped, dead_lettered, retried."""
        return dict(self._follower.counts)

    @property
    def batches(self) -> int:
        """How many batches have finished."""
        return self._follower.batches

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended; False when the time-out came first. Raises what ended it."""
        if not self._follower.done.wait(timeout_s):
            return False
        self._raise_failure()
        return True

    def request_stop(self, reason: str = "asked to stop") -> None:
        """Ask it to stop after the running batch, without waiting; safe in a signal handler."""
        self._follower.request_stop(reason)

    def stop(self, timeout_s: float | None = None) -> None:
        """Let the running batch end, commit it, stop; raise what ended the run, if it was an error.

        A batch that does not end within `timeout_s` (`stop_s` of the settings by default) is cut off, and
        `AbandonedError` says so: its records are handled again.
        """
        self._follower.request_stop("stop() was called", timeout_s)
        if self._follower.owns(threading.current_thread()):
            return
        limit_s = 2 * self._follower.stop_s + (timeout_s or 0.0) + _SLACK_S
        if not self._follower.done.wait(limit_s):
            raise EngineError(f"The query did not end within {limit_s:.0f} s. Please report it.")
        self._raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _raise_failure(self) -> None:
        if self._follower.failure is not None:
            raise self._follower.failure


def start_on_spark(parts: AppParts, spark: SparkSession, choices: SparkChoices) -> SparkRun:
    """Start the query and return at once. Raises what is wrong; then nothing runs."""
    if not versions.gives_limits():
        raise ConfigurationError("The engine needs PySpark 4.2 or newer: pip install 'pyspark>=4.2'.")
    check_app(parts)
    check_session(spark)
    given = dict(choices.source_options or {})
    options = way_in_options(parts.endpoint, given, consumer=parts.settings.consumer) | given
    packed = pack(Shipment.of(parts), choices.folders)
    with ExitStack() as undo:
        run = _Start(parts, spark, choices, undo).start(options, packed)
        undo.pop_all()
    return run


class _Start:
    """One start; what it opened is closed by `undo` if it fails."""

    def __init__(self, parts: AppParts, spark: SparkSession, choices: SparkChoices, undo: ExitStack) -> None:
        self._parts = parts
        self._spark = spark
        self._choices = choices
        self._undo = undo
        self._stops: ExitStack = ExitStack()
        self._early: list[EhkafkaError] = []
        self._follower: Follower | None = None

    def start(self, options: dict[str, str], packed: bytes) -> SparkRun:
        from ehkafka.spark.engine.reader import EngineJob, engine_source  # noqa: PLC0415 - needs pyspark

        bus = EventBus(self._parts.event_hooks)
        bus.start()
        self._undo.callback(bus.close, 1.0)
        group = Group(self._parts, bus, self._fail)
        folder = Path(tempfile.mkdtemp(prefix="ehkafka-spark-"))
        self._undo.callback(shutil.rmtree, folder, ignore_errors=True)
        self._undo.callback(group.close, deadline_s=0.0)
        group.open()
        group.refuse_members()
        checkpoint, starts = self._where_to_begin(group, folder)
        group.claim(starts)
        for function in self._parts.on_start:
            function()
        for function in self._parts.on_stop:
            self._stops.callback(function)
        self._undo.push(self._stops)
        name = f"ehkafka-engine-{uuid.uuid4().hex[:12]}"
        job = EngineJob(name, packed, str(folder / "stop"))
        let_planners_import(self._spark)
        self._spark.dataSource.register(engine_source(job))
        options |= {
            "tasks": options.get("tasks", str(self._spark.sparkContext.defaultParallelism)),
            "subscribe": ",".join(self._parts.topics),
            "startingOffsets": encode(starts),
            "maxOffsetsPerTrigger": str(self._choices.max_records_per_batch),
            "failOnDataLoss": str(self._parts.settings.on_out_of_range == "stop").lower(),
        }
        query = self._query(name, options, checkpoint)

        def on_end() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            self._stops.close()
            bus.close(2.0)

        follower = Follower(
            query,
            group,
            stop_file=folder / "stop",
            stop_s=self._parts.settings.stop_s,
            emit=bus.emit,
            on_end=on_end,
        )
        self._follower = follower
        for error in self._early:
            follower.fail(error)
        bus.emit(AppStarted(self._parts.settings.group, self._parts.topics))
        follower.start()
        return SparkRun(query, follower)

    def _where_to_begin(self, group: Group, folder: Path) -> tuple[str, dict[TopicPartition, int]]:
        """Return Spark's checkpoint, and where the group is to stand at the start."""
        parts, where = self._parts, self._choices.checkpoint
        if where is None:
            return str(folder / "checkpoint"), group.begin()
        identity = Identity(parts.settings.group, parts.topics, parts.endpoint.name)
        checkpoint = CheckpointFolder(self._spark, where, identity)
        standing = checkpoint.standing()
        if self._choices.new_checkpoint:
            checkpoint.begin_anew()
            standing = None
        starts = group.begin()
        if standing is not None:
            late = check_hand_over(where, parts.settings.group, standing, group.committed)
            starts |= late
        checkpoint.claim()
        return checkpoint.path, starts

    def _query(self, name: str, options: dict[str, str], checkpoint: str) -> StreamingQuery:
        frame = self._spark.readStream.format(name).options(**options).load()
        writer = observed(frame).writeStream.format("noop").queryName(name)
        writer = writer.option("checkpointLocation", checkpoint)
        if self._choices.available_now:
            writer = writer.trigger(availableNow=True)
        else:
            interval_s = self._choices.interval_s
            wait_ms = round(1000 * (INTERVAL_S if interval_s is None else interval_s))
            writer = writer.trigger(processingTime=f"{wait_ms} milliseconds")
        return writer.start()

    def _fail(self, error: EhkafkaError) -> None:
        if self._follower is None:
            self._early.append(error)
        else:
            self._follower.fail(error)
