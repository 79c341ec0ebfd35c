"""Starts an app's handlers as a query on Spark.

In the caller's thread on the driver: everything that can be known before the first batch is an exception
here, and then nothing runs. The query is started on the run's own thread, which goes on to follow it: the
exception of a signal comes on the main thread, and Java would go on with a call whose answer is lost.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
import uuid
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ehkafka.events import AppStarted
from ehkafka.run.at_least_once import check_producer
from ehkafka.run.ending import RunEnding
from ehkafka.run.spark_options import INTERVAL_S
from ehkafka.spark import versions
from ehkafka.spark.engine.app_checks import check_app, check_session, check_source
from ehkafka.spark.engine.batches import Batches
from ehkafka.spark.engine.checkpoint_folder import CheckpointFolder, Identity
from ehkafka.spark.engine.follow import Follower
from ehkafka.spark.engine.group.group import Group, give_back, reserve
from ehkafka.spark.engine.group.hand_over import check_hand_over
from ehkafka.spark.engine.group.reach import ADVICE, reach_options
from ehkafka.spark.engine.run import SLACK_S, SparkRun
from ehkafka.spark.engine.signs import Signs
from ehkafka.spark.engine.tasks.shipment import pack
from ehkafka.spark.shipped import let_planners_import
from ehkafka.spark.source.offsets import encode
from ehkafka.spark.source.options import options_from
from ehkafka.spark.workers_python import check_workers_python
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ehkafka.records import TopicPartition
    from ehkafka.run.options import AppOptions
    from ehkafka.run.spark_options import SparkOptions

_LOG = logging.getLogger("ehkafka.spark")
# In slices: a wait without end would keep signals from being handled on some platforms.
_WAIT_S = 0.1


def prepared(app: AppOptions, choices: SparkOptions, advice: str = ADVICE) -> tuple[dict[str, str], bytes]:
    """Return the source's options, and what goes to the executors. Raises what is wrong without a session.

    `advice` is the last sentence about an endpoint that executors cannot make.
    """
    versions.check_pyspark()
    check_app(app)
    given = dict(choices.source_options or {})
    options = reach_options(app.endpoint, given, consumer=app.settings.consumer, advice=advice) | given
    # What is wrong with them is reported here, and not by Spark's planning process.
    source = options_from({**options, "subscribe": ",".join(app.topics)})
    check_source(source)
    source.endpoint.endpoint()
    return options, pack(app, choices.folders)


def start_on_spark(app: AppOptions, spark: SparkSession, choices: SparkOptions) -> SparkRun:
    """Start the query and return at once. Raises what is wrong; then nothing runs."""
    options, packed = prepared(app, choices)
    check_session(spark)
    check_workers_python(spark)  # last: it asks a process
    return _Start(app, spark, choices).start(options, packed)


def _is_over(context: SparkContext) -> bool:
    # What PySpark forgets when a session is stopped; asking Java every moment would cost more.
    return context._jsc is None  # noqa: SLF001


class _Start:
    """One start. What it opens is closed on the run's thread, at the run's end or where it is broken off."""

    def __init__(self, app: AppOptions, spark: SparkSession, choices: SparkOptions) -> None:
        self._app = app
        self._spark = spark
        self._choices = choices
        # What the thread waits for, unless the start is broken off before; and whether there is a query.
        self._start_query: Future[Callable[[], StreamingQuery]] = Future()
        self._started: Future[None] = Future()
        self._on_stop = ExitStack()
        self._bus = EventBus(app.event_hooks)
        self._batches = Batches()
        self._ending = RunEnding(app)
        self._group = Group(app, self._bus, self._ending.fail)
        # What the query needs while it runs: the run's signs, and a checkpoint if none was given.
        self._folder = Path(tempfile.mkdtemp(prefix="ehkafka-spark-"))
        self._follower = Follower(
            self._batches,
            self._group,
            self._ending,
            signs=Signs(self._folder),
            is_session_over=partial(_is_over, spark.sparkContext),
            stop_s=app.settings.stop_s,
            emit=self._bus.emit,
            on_stop=self._on_stop.close,
            on_end=self._end,
        )

    def start(self, options: Mapping[str, str], packed: bytes) -> SparkRun:
        """Start the query and return what the caller holds; end all that there is where that fails."""
        # Before anything is opened, for it closes it.
        threading.Thread(target=self._follow, name="ehkafka-spark", daemon=True).start()
        try:
            self._start_query.set_result(self._opened(options, packed))
            self._started.result()
            return SparkRun(self._follower, self._app.settings.group, self._app.endpoint.name)
        except BaseException as error:
            self._break_off(error)
            raise

    def _opened(self, options: Mapping[str, str], packed: bytes) -> Callable[[], StreamingQuery]:
        """Reach the broker, say where to begin, run the on_start functions; return what starts the query."""
        app, group = self._app, self._group
        self._bus.start()
        reserve(app.endpoint.name, app.settings.group, app.topics, group.run)
        group.open()
        if app.output_topics:
            # The tasks have producers of their own; what keeps all of them from sending is known here.
            check_producer(app, self._bus.emit)
        group.refuse_members()
        group.reset()
        checkpoint, starts = self._take()
        self._call_on_start()
        own = self._own_options(options, starts)
        return self._prepare(packed, {**options, **own}, checkpoint)

    def _follow(self) -> None:
        """Start the query and follow it. On the run's thread."""
        try:
            self._follower.begin(self._start_query.result())
            self._bus.emit(AppStarted(self._app.settings.group, self._app.topics))
        except BaseException as error:  # the caller's, whatever it is
            self._started.set_exception(error)
            self._follower.cut_off()
            return
        self._started.set_result(None)
        if self._ending.is_at_once:
            self._follower.cut_off()
        else:
            self._follower.run()

    def _take(self) -> tuple[str, dict[TopicPartition, int]]:
        """Take the group; return Spark's checkpoint, and where the query begins without what is in there."""
        app, group, where = self._app, self._group, self._choices.checkpoint_folder
        if where is None:
            # Its scheme says that it is this machine's: a path alone may be the cluster's.
            return (self._folder / "checkpoint").as_uri(), group.take(group.begin())
        identity = Identity(app.settings.group, app.topics, app.endpoint.name)
        checkpoint = CheckpointFolder(self._spark, where, identity)
        standing = checkpoint.standing()
        if self._choices.new_checkpoint:
            checkpoint.begin_anew()
            standing = None
        starts = group.begin(() if standing is None else {one.topic for one in standing.finished})
        if standing is not None:
            # What was committed in another log is compared with nothing.
            committed = {p: commit for p, commit in group.committed.items() if p not in group.disproved}
            starts |= check_hand_over(checkpoint.whose, standing, committed)
            starts |= group.begin_over(standing)
        starts = group.take(starts, checkpoint.name, goes_on=standing is not None)
        checkpoint.describe(keeps_tags=group.keeps_tags)
        return checkpoint.path, starts

    def _own_options(
        self, options: Mapping[str, str], starts: Mapping[TopicPartition, int]
    ) -> dict[str, str]:
        return {
            "tasks": options.get("tasks", str(self._spark.sparkContext.defaultParallelism)),
            "subscribe": ",".join(self._app.topics),
            "startingOffsets": encode(starts),
            "maxOffsetsPerTrigger": str(self._choices.max_records_per_batch),
            "failOnDataLoss": str(self._app.settings.on_out_of_range == "stop").lower(),
        }

    def _prepare(
        self, packed: bytes, options: Mapping[str, str], checkpoint: str
    ) -> Callable[[], StreamingQuery]:
        """Return what starts the query, on whichever thread, with this one's settings of Spark."""
        from pyspark import inheritable_thread_target  # noqa: PLC0415 - needs pyspark

        from ehkafka.spark.engine.tasks.reader import EngineJob, engine_source  # noqa: PLC0415 - likewise

        name = f"ehkafka-engine-{uuid.uuid4().hex[:12]}"
        let_planners_import(self._spark)
        job = EngineJob(name, packed, Signs(self._folder), ends_here=self._choices.available_now)
        self._spark.dataSource.register(engine_source(job))
        frame = self._spark.readStream.format(name).options(**options).load()
        writer = frame.writeStream.foreachBatch(self._batches).queryName(name)
        writer = self._triggered(writer.option("checkpointLocation", checkpoint))
        # Such as a scheduler pool, which Spark keeps by thread.
        inheriting = inheritable_thread_target(self._spark)
        return cast("Callable[[], StreamingQuery]", inheriting(writer.start))

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        interval_s = 0.0 if self._choices.available_now else self._choices.interval_s
        wait_ms = round(1000 * (INTERVAL_S if interval_s is None else interval_s))
        return writer.trigger(processingTime=f"{wait_ms} milliseconds")

    def _call_on_start(self) -> None:
        """Run the on_start functions; once all have run, the on_stop functions will."""
        for function in self._app.on_start:
            function()
        for function in self._app.on_stop:
            self._on_stop.callback(function)

    def _break_off(self, error: BaseException) -> None:
        """Let the run's thread end all there is, and wait for that: signals come on the main thread.

        A signal may come before the caller has the query, and more of them may follow.
        """
        self._ending.exit_now()
        self._start_query.cancel()
        signal = self._await_end()
        failure = self._ending.failure
        if failure is not None and failure is not error:
            _LOG.warning("The start was broken off, and that failed, too: %s", failure)
        if signal is not None:
            raise signal

    def _await_end(self) -> BaseException | None:
        """Wait until all has ended, with a bound; return what a signal has raised meanwhile."""
        ends_s = time.monotonic() + SLACK_S
        noted: BaseException | None = None
        while not self._ending.is_done:
            try:
                if time.monotonic() > ends_s and not self._follower.is_in_users_hands:
                    _LOG.warning(
                        "A start was broken off %.0f s ago, and its query has not ended. Handlers may run "
                        "until it has, so no other run gets the group before. Stop the query in Spark's own "
                        "page, or the process.",
                        SLACK_S,
                    )
                    break
                self._ending.wait(_WAIT_S)
            except BaseException as signal:
                if self._follower.is_in_users_hands:
                    raise  # their on_stop functions go on meanwhile
                noted = noted or signal
        return noted

    def _end(self) -> None:
        """Close what was opened here, on the run's thread."""
        with ExitStack() as last:
            last.callback(give_back, self._group.run)
            last.callback(self._bus.close, 2.0)
            last.callback(shutil.rmtree, self._folder, ignore_errors=True)
