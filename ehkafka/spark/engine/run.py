"""What the caller of `App.run_on_spark` holds: one query that runs an app's handlers."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EngineError
from ehkafka.run.run import PlainRun
from ehkafka.spark.engine.follow import LAST_S
from ehkafka.spark.engine.group.ownership import CHECK_TIMEOUT_S
from ehkafka.spark.engine.tasks.last_tasks import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from pyspark.sql.streaming.query import StreamingQuery

    from ehkafka.errors import EhkafkaError
    from ehkafka.settings import Drain
    from ehkafka.spark.engine.follow import Follower
    from ehkafka.telemetry.snapshot import Snapshot

# How long `stop` waits beyond its own time-out, and a start that is broken off altogether. A silent broker
# may hold up that it is noticed, that the batch has ended and that the tasks have; then these have their
# time, the last commit has, and all else.
SLACK_S = 3 * CHECK_TIMEOUT_S + TIMEOUT_S + LAST_S + 10.0


class SparkRun(PlainRun):
    """One query that runs an app's handlers. Its methods may be called from any thread."""

    def __init__(self, follower: Follower, group: str = "", endpoint: str = "") -> None:
        super().__init__(lambda: (group, endpoint, follower.state))
        self._follower = follower

    def snapshot(self) -> Snapshot:
        """Return what finished batches had, where they got to, and the state. Spark's own UI has more."""
        counts: dict[str, Any] = {
            f"{name}_records": count for name, count in self.counts.items() if name != "retried"
        }
        follower = self._follower
        batch_s = follower.progress.picture.batch_s
        return replace(super().snapshot(), partitions=follower.partitions(), batch_s=batch_s, **counts)

    @property
    def query(self) -> StreamingQuery:
        """Spark's query."""
        return self._follower.query

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._follower.ending.is_done

    @property
    def failure(self) -> EhkafkaError | None:
        """What ended it, if it was an error."""
        return self._follower.ending.failure

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
        if not self._follower.ending.wait(timeout_s):
            return False
        self._raise_failure()
        return True

    def request_stop(
        self,
        reason: str = "asked to stop",
        *,
        drain: Drain | None = None,  # noqa: ARG002 - a batch is drained as a whole
        timeout_s: float | None = None,
    ) -> None:
        """Ask it to stop after the running batch, without waiting; safe in a signal handler."""
        self._follower.ending.request_stop(reason, timeout_s=timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the run's own."""
        return thread is self._follower.thread

    def exit_now(self) -> None:
        """Cut the running batch off, without waiting; its records are handled again."""
        self._follower.ending.exit_now()

    def stop(self, timeout_s: float | None = None) -> None:
        """Let the running batch end, commit it, stop; raise what ended the run, if it was an error.

        A batch that does not end within `timeout_s` (`stop_s` of the settings by default) is cut off, and
        `UnfinishedError` says so: its records are handled again. The on_stop functions are waited for.
        """
        self._follower.ending.request_stop("stop() was called", timeout_s=timeout_s)
        if self.owns(threading.current_thread()):
            return
        limit_s = max(self._follower.stop_s, timeout_s or 0.0) + SLACK_S
        # The user's on_stop functions take their time, as they do without Spark.
        while not self._follower.ending.wait(limit_s):
            if not self._follower.is_in_users_hands:
                raise EngineError(f"The query did not end within {limit_s:.0f} s. Please report this error.")
        self._raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure
