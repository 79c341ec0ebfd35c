"""Follows a running query: commits what its finished batches reached, ends it in order, says of what it died.

On the run's own thread on the driver. It reads the query's progress instead of hearing a
`StreamingQueryListener`: Spark's events come late, may be dropped when many wait, and the last ones may come
after the query has stopped, while the progress is there from the moment at which its batch counts.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Literal

from ehkafka.errors import EhkafkaError, EngineError, UnfinishedError, describe
from ehkafka.events import AppStopped, AppStopping, BatchesFinished
from ehkafka.run.ending import death_of
from ehkafka.spark.engine.batches import QueryProgress
from ehkafka.spark.engine.failures import failure_of, is_of_java, java_says
from ehkafka.spark.engine.tasks.last_tasks import await_tasks
from ehkafka.spark.engine.tasks.results import COUNTS
from ehkafka.spark.source.lag import reported_offset
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.starting import STARTS_MAX, log_start
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from ehkafka.events import Event
    from ehkafka.run.ending import RunEnding
    from ehkafka.spark.engine.batches import Batches
    from ehkafka.spark.engine.group.group import Group
    from ehkafka.spark.engine.signs import Signs
    from ehkafka.telemetry.snapshot import PartitionSnapshot

# Between two looks at the query's progress; in between, the client's callbacks are let through.
CHECK_S = 0.1
# Between two lines about finished batches.
REPORT_S = 5.0
STOP_CHECK_S = 0.005
# What the last commit may take at least, however late the batch before it has ended.
LAST_S = 10.0
# How Spark's words begin until a query's first trigger.
_BEGINNING = "Initializing"


class Follower:
    """What the run's thread does, up to the end of `ending`.

    `begin`, then `run` to the end; or `cut_off` if the start is broken off.
    """

    def __init__(
        self,
        batches: Batches,
        group: Group,
        ending: RunEnding,
        *,
        signs: Signs,
        is_session_over: Callable[[], bool],
        stop_s: float,
        emit: Callable[[Event], None],
        on_stop: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        """`signs` tell the source to plan no further batch, and the run that there is none.

        `on_stop` calls the user's functions and `on_end` closes the rest, both at the end, on the thread.

        A query does not notice by itself that its session has ended, until it has a batch to run.
        """
        self._batches = batches
        self._group = group
        self.ending = ending
        self._signs = signs
        self._is_session_over = is_session_over
        self.stop_s = stop_s
        self._emit = emit
        self._on_stop = on_stop
        self._on_end = on_end
        # Whether all that is left are the user's on_stop functions. Written by the thread.
        self.is_in_users_hands = False
        # Written by the thread, replaced and never changed.
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.batches = 0
        self._query: StreamingQuery | None = None
        # Set by `run`, where the run has begun for its user.
        self.thread: threading.Thread | None = None
        # The thread's.
        self._start_query: Callable[[], StreamingQuery]
        self._starts = 0
        self.progress = QueryProgress()
        # When batches were reported, how many there were by then, and their records; what later ones took.
        self._reported = time.monotonic(), 0, 0
        self._took_s = 0.0
        self._ends_s = 0.0

    def begin(self, start_query: Callable[[], StreamingQuery]) -> None:
        """Start the query. It is started again if it never begins.

        Raises what has ended the run before: the app's functions may have taken long.
        """
        self._start_query = start_query
        self._serve(0.0)
        if self.ending.failure is not None:
            raise self.ending.failure
        self._start()

    def cut_off(self) -> None:
        """End a run that no thread follows, and its query, if there is one. Never raises."""
        self.ending.exit_now()
        self._finish()

    def run(self) -> None:
        """Follow the query to its end, and end all else. Never raises."""
        self.thread = threading.current_thread()
        try:
            self._follow()
        except BaseException as error:
            self.ending.fail(_failure("The thread that follows the Spark query", error))
        finally:
            self._finish()

    @property
    def query(self) -> StreamingQuery:
        """The one that runs, since `begin`. Replaced by the thread."""
        assert self._query is not None
        return self._query

    @property
    def state(self) -> Literal["running", "stopping", "stopped"]:
        """Where the run is in its life."""
        if self.ending.is_done:
            return "stopped"
        return "stopping" if self.ending.is_stopping else "running"

    def partitions(self) -> tuple[PartitionSnapshot, ...]:
        """Return the picture of what it reads, nothing once it has ended. Any thread."""
        stored = self._group.commits.stored()
        return () if self.ending.is_done else self.progress.picture.partitions(committed=stored)

    def _start(self) -> None:
        self._starts += 1
        log_start(self._starts, STARTS_MAX)
        self._query = self._start_query()

    def _follow(self) -> None:
        while not self.ending.is_stopping:
            # In this order: a query that has ended by itself has reported all its progress.
            is_active = self.query.isActive
            self._check()
            if not is_active and not self._begins_again():
                return
            if self._signs.over.exists():
                self.ending.request_stop("all that was there is handled")
            self._serve(CHECK_S)
            if self._is_session_over():
                self._exit(_driver_ended("the session was stopped"))
        self._stop_between_batches()

    def _serve(self, timeout_s: float) -> None:
        """Commit what is due, and end the run where the group was moved."""
        self._group.serve(timeout_s)
        if (lost := self._group.commits.lost()) is not None:
            # Another run handles the records of the running batch as well.
            self._exit(lost)

    def _exit(self, error: EhkafkaError) -> None:
        """Fail, and cut the running batch off."""
        self.ending.fail(error)
        self.ending.exit_now()

    def _begins_again(self) -> bool:
        """Start the query again if it ended before it began, for want of time; tell whether it was."""
        if self._starts == STARTS_MAX or self._batches.failure is not None:
            return False
        if not self.progress.is_for_want_of_time(self.query):
            return False
        self._start()
        return True

    def _check(self) -> None:
        """Take what has been finished since the last look."""
        for progress in self.progress.new(self.query):
            result = self._batches.take(progress["batchId"]) if progress["numInputRows"] else None
            self.progress.take(progress, is_batch=result is not None)
            if result is not None:
                self.batches += 1
                self.counts = {name: self.counts[name] + result.counts[name] for name in COUNTS}
                self._took_s += progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
            end = reported_offset(progress["sources"][0].get("endOffset")) or StreamOffset()
            self._group.commits.note(end, None if result is None else result.lasts)
        self._report(REPORT_S)

    def _report(self, at_least_s: float) -> None:
        """Report the batches since the last line, unless that was a moment ago."""
        now_s, (reported_s, batches, received) = time.monotonic(), self._reported
        if self.batches == batches or now_s - reported_s < at_least_s:
            return
        new = self.batches - batches, self.counts["received"] - received, self._took_s
        shown = self.progress.picture.partitions()
        lags = [lag for one in shown if (lag := one.lag_records) is not None]
        self._emit(BatchesFinished(*new, sum(lags) if lags else None))
        self._reported, self._took_s = (now_s, self.batches, self.counts["received"]), 0.0

    def _stop_between_batches(self) -> None:
        """Stop while no batch runs: `stop()` in the middle of one would cut its handlers off."""
        request = self.ending.request
        assert request is not None
        self._emit(AppStopping(request.reason, drain="started", deadline_s=round(self._stop_left_s(), 1)))
        self._signs.stop.touch()
        while self.query.isActive and self._stop_left_s():
            # From now on a trigger that begins finds nothing new, so one look between two of them is enough.
            if not self._is_busy():
                break
            self._serve(STOP_CHECK_S)
        else:
            if self.query.isActive and self.query.status["isTriggerActive"]:
                self.ending.fail(
                    UnfinishedError(
                        "The running batch did not end within the stop's time, so it was cut off: no record "
                        "of the batch is committed, and its records are handled again. Give stop() more "
                        "time, or the query a smaller max_records_per_batch."
                    )
                )
        self.query.stop()

    def _is_busy(self) -> bool:
        status = self.query.status
        # Before its first trigger a query may be about to repeat a batch of its checkpoint.
        return bool(status["isTriggerActive"]) or str(status["message"]).startswith(_BEGINNING)

    def _stop_left_s(self) -> float:
        request = self.ending.request
        if request is None:
            return self.stop_s
        return 0.0 if self.ending.is_at_once else max(0.0, request.deadline_s - time.monotonic())

    def _finish(self) -> None:
        """End all there is to end, each whatever became of the one before."""
        try:
            for what, step in (
                ("The end of the Spark query", self._end_query),
                # Before the group is let go: cancelled tasks go on for seconds.
                ("The end of Spark's tasks", self._await_tasks),
                ("The last commit", self._commit_last),
                ("The end of the group's client", lambda: self._group.close(deadline_s=self._ends_s)),
                ("", self._call_on_end),
            ):
                try:
                    step()
                except BaseException as error:
                    self.ending.fail(_failure(what, error))
        finally:
            self.ending.end()  # no caller of wait() may wait for ever

    def _await_tasks(self) -> None:
        if self._query is not None:
            await_tasks(self._query)

    def _commit_last(self) -> None:
        if self._query is None:
            return  # of a start that was broken off, all is committed
        # By the stop's own deadline, unless that is too near: the mirror shares it.
        timeout_s = max(self._stop_left_s(), min(self.stop_s, LAST_S))
        self._ends_s = time.monotonic() + timeout_s
        late = self._group.commits.finish(timeout_s)
        if (lost := self._group.commits.lost()) is not None:
            self.ending.fail(lost)
        elif late:
            shown = ", ".join(map(str, late[:10]))
            self.ending.fail(
                UnfinishedError(
                    f"The last commit of {shown} failed "
                    f"({self._group.commits.problem or 'no answer in time'}), so records finished since the "
                    "previous commit are handled again."
                )
            )

    def _call_on_end(self) -> None:
        self.is_in_users_hands = True
        self._call_last(self._on_stop)
        if self.thread is not None:
            # After the user's functions: what they raise is an error of the run, too.
            failure = self.ending.failure
            self._emit(AppStopped(0 if failure is None else failure.exit_code, 0))
        self._call_last(self._on_end)

    def _call_last(self, function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            self.ending.fail(EhkafkaError(f"Stopping the app failed: {ended(describe(error))}"))

    def _end_query(self) -> None:
        if self._query is None:
            return
        if self.query.isActive:
            self.query.stop()
        self._check()
        self._report(0.0)
        if self._batches.failure is not None:
            self.ending.fail(self._batches.failure)
        elif self.ending.is_stopping and self.progress.is_for_want_of_time(self.query):
            pass  # without the stop, the query would have been started again: that is no failure
        elif (error := self.query.exception()) is not None:
            self.ending.fail(failure_of(str(error)))


def _failure(what: str, error: BaseException) -> EhkafkaError:
    """Return what ends the run: Spark's driver may be gone, which is none of our defects."""
    if is_of_java(error):
        failure = _driver_ended(java_says(error))
        failure.__cause__ = error
        return failure
    return death_of(what, error)


def _driver_ended(why: str) -> EngineError:
    return EngineError(
        f"Spark's driver failed or ended during the run ({why}). The records of its last batch may be "
        "handled again. If the program ends the session itself, call run.stop() first, then spark.stop()."
    )
