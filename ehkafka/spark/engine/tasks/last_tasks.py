"""Waits for the tasks of a query that has ended: Spark cancels them, and does not wait itself.

A cancelled task's Python worker is ended by Spark only after seconds (`spark.python.task.killTimeout`, after
up to two more until it looks), and until then its handlers go on. The next query must not begin before.
On the driver, on the thread that follows the query.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Twice what Spark takes by default.
TIMEOUT_S = 8.0
CHECK_S = 0.05
# Of a query's jobs, those whose tasks may run still: it has one at a time.
_LAST_JOBS = 2

_LOG = logging.getLogger("ehkafka.spark")


def await_tasks(query: StreamingQuery, timeout_s: float = TIMEOUT_S) -> None:
    """Return when no task of a query that was stopped runs any more; tell if some do after `timeout_s`."""
    jvm: Any = query._jsq  # noqa: SLF001 - PySpark's query has no way to its session
    tracker = jvm.sparkSession().sparkContext().statusTracker()
    group = str(jvm.runId())
    ends_s = time.monotonic() + timeout_s
    while running := _running(tracker, group):
        if time.monotonic() > ends_s:
            _LOG.warning(
                "%d tasks of the query still run %.0f s after it was stopped. Wait until they have ended, as "
                "Spark's own page shows, before something else handles this group's records.",
                running,
                timeout_s,
            )
            return
        time.sleep(CHECK_S)


def _running(tracker: Any, group: str) -> int:
    jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(group))[-_LAST_JOBS:]]
    stages = [
        tracker.getStageInfo(stage) for job in jobs if job.isDefined() for stage in job.get().stageIds()
    ]
    return sum(stage.get().numActiveTasks() for stage in stages if stage.isDefined())
