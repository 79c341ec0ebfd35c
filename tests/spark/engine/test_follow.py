"""How a query is followed, without Spark: what counts as a finished batch, and what ends it."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from ehkafka.errors import (
    EngineError,
    GroupInUseError,
    HandlerFailedError,
    OffsetGapError,
)
from ehkafka.events import AppStopped, BatchesFinished
from ehkafka.spark.engine.batches import Batches, BatchFailedError
from ehkafka.spark.engine.tasks.results import PartitionResult, failed_task
from ehkafka.spark.starting import STARTS_MAX


def test_a_look_that_found_nothing_hides_no_batch(scene: SimpleNamespace, lab: Any) -> None:
    """The trap: a look without new records has the number of the batch that comes next."""
    scene.query.add(0, 10, received=10)
    scene.start()
    lab.wait_until(lambda: scene.group.ends == [10])
    scene.query.add(1, 10, received=0)
    lab.wait_until(lambda: scene.group.ends == [10, 10])
    scene.query.add(1, 25, received=15)
    scene.query.add(2, 30, received=5)
    lab.wait_until(lambda: scene.group.ends[-1] == 30)
    scene.run.stop()
    assert scene.run.counts["finished"] == 30
    assert scene.run.batches == 3


def test_a_clock_that_is_set_back_hides_no_batch(scene: SimpleNamespace, lab: Any) -> None:
    """The machine's clock tells progress apart, not which is later; the last batches are committed."""
    scene.query.add(0, 10, received=10)
    scene.start()
    lab.wait_until(lambda: scene.group.ends == [10])
    for batch, end in ((1, 25), (2, 30)):
        scene.query.add(batch, end, received=10, timestamp=f"2025-12-31T23:00:0{batch}.000Z")
    scene.run.stop()
    assert scene.group.ends[-1] == 30
    assert scene.run.batches == 3


def test_the_last_batch_counts_though_the_query_has_ended(scene: SimpleNamespace) -> None:
    """A query that ends by itself has reported all its progress by then, and that is committed."""
    scene.query.add(0, 10, received=10)
    scene.query.isActive = False
    scene.start()
    assert scene.run.wait(10)
    assert scene.group.ends == [10]
    assert scene.group.is_closed
    assert scene.ended == ["end"]
    assert scene.events == [BatchesFinished(1, 10, 0.25, 30), AppStopped(0, 0)]


def test_a_running_querys_partitions_are_in_the_picture(scene: SimpleNamespace, lab: Any) -> None:
    """Lag, position, commit and batch time; nothing of a partition once the run has ended."""
    scene.query.add(0, 10, received=10)
    scene.query.add(1, 25, received=15)
    scene.start()
    lab.wait_until(lambda: scene.group.ends == [10, 25])
    shown = scene.run.snapshot()
    (partition,) = shown.partitions
    assert (partition.lag_records, partition.watermark, partition.committed) == (15, 25, 10)
    assert (shown.batch_s, shown.finished_records) == (0.25, 25)
    scene.run.stop()
    assert scene.run.snapshot().partitions == ()


def test_a_run_ends_when_all_that_was_there_is_handled(scene: SimpleNamespace, lab: Any) -> None:
    """The process that plans says so between two batches: the last one is committed, and that is no error."""
    scene.query.is_busy = True
    scene.start()
    scene.query.add(0, 10, received=10)
    scene.signs.over.touch()
    lab.wait_until(scene.signs.stop.exists)
    assert scene.query.isActive  # it plans, and is left to end that
    scene.query.is_busy = False
    assert scene.run.wait(10)
    assert (scene.query.stopped_while_busy, scene.group.ends) == (False, [10])


def test_what_is_left_is_reported_before_pyspark_4_2_as_well(scene: SimpleNamespace) -> None:
    """A batch's end is reported twice there, and carries where the logs ended."""
    scene.query.add(0, 10, received=10)
    (source,) = scene.query.progress[0]["sources"]
    source["endOffset"] = source["latestOffset"] = {"t": {"0": 10}, "#ends": {"t": {"0": 35}}}
    scene.query.isActive = False
    scene.start()
    assert scene.run.wait(10)
    assert scene.events[0] == BatchesFinished(1, 10, 0.25, 25)


def test_what_ended_the_query_is_reported_as_ours(scene: SimpleNamespace) -> None:
    """An error of a task, found in what Spark says, is what wait() raises."""
    scene.query.error = RuntimeError(
        "Job aborted\nehkafka.errors.HandlerFailedError: Handler 'h' failed. Fix it.\n\tat x"
    )
    scene.query.isActive = False
    scene.start()
    with pytest.raises(HandlerFailedError, match=r"^Handler 'h' failed\. Fix it\.$"):
        scene.run.wait(10)


def test_a_stopped_task_ends_the_run_with_its_own_error(
    scene: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """The row of a task that a policy has stopped fails its batch; only the run's error tells of it."""
    error = HandlerFailedError("Handler 'h' failed\nat t[0]@3. Fix it.")
    with pytest.raises(BatchFailedError) as failed:
        scene.query.batches([PartitionResult("t", 1, received=5, finished=5), failed_task(error)], 0)
    logging.getLogger("py4j.clientserver").error("a proxy failed", exc_info=failed.value)
    assert caplog.text == ""
    scene.query.error = RuntimeError("BatchFailedError, and what Java says of it")
    scene.query.isActive = False
    scene.start()
    with pytest.raises(HandlerFailedError, match=r"^Handler 'h' failed at t\[0\]@3\. Fix it\.$"):
        scene.run.wait(10)
    assert scene.group.ends == []


def test_an_error_of_the_batch_itself_ends_the_run(scene: SimpleNamespace) -> None:
    """What Spark says of a task that failed for good is reported as ours."""

    def collect() -> None:
        raise RuntimeError("Job aborted\nehkafka.errors.OffsetGapError: gone\n\tat x")

    with pytest.raises(BatchFailedError):
        Batches.__call__(scene.query.batches, SimpleNamespace(collect=collect), 0)  # type: ignore[arg-type]
    scene.query.isActive = False
    scene.start()
    with pytest.raises(OffsetGapError, match="gone"):
        scene.run.wait(10)


def test_a_query_that_never_began_is_started_again(scene: SimpleNamespace, lab: Any) -> None:
    """Spark gives the process that plans ten seconds to start; a very busy machine gets some more goes."""
    scene.query.error = RuntimeError("Python worker failed to connect back.")
    scene.query.isActive = False
    later = lab.FakeQuery()
    later.batches = scene.query.batches
    scene.queries.append(later)
    scene.start()
    lab.wait_until(lambda: scene.run.query is later)
    later.add(0, 10, received=10)
    lab.wait_until(lambda: scene.group.ends == [10])
    scene.run.stop()
    assert scene.run.counts["finished"] == 10


def test_a_query_that_never_begins_ends_the_run(scene: SimpleNamespace) -> None:
    """There is an end to starting it again, and the error says what it was."""
    scene.query.error = RuntimeError("Python worker failed to connect back.")
    scene.query.isActive = False
    scene.queries += [scene.query] * STARTS_MAX
    scene.start()
    with pytest.raises(EngineError, match="did not start within ten seconds"):
        scene.run.wait(10)
    assert len(scene.queries) == 1


def test_a_stop_before_a_late_query_is_started_again_is_no_error(scene: SimpleNamespace) -> None:
    """A query that would have been started again has not failed when it is stopped just then."""
    scene.query.error = RuntimeError("Python worker failed to connect back.")
    scene.query.isActive = False
    scene.run.request_stop()
    scene.start()
    assert scene.run.wait(10)


def test_the_batch_of_a_group_that_is_taken_away_is_cut_off(scene: SimpleNamespace) -> None:
    """Another run handles the running batch as well: the run does not wait for it."""
    scene.query.is_busy = True
    scene.group.taken = GroupInUseError("another run")
    scene.start()
    began_s = time.monotonic()
    with pytest.raises(GroupInUseError, match="another run"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is True
    assert time.monotonic() - began_s < scene.stop_s


def test_a_driver_that_is_gone_is_reported_as_such(scene: SimpleNamespace, lab: Any) -> None:
    """A program that ends its session first: the last commit is made all the same, and on_stop runs."""
    scene.query.add(0, 10, received=10)
    scene.start()
    lab.wait_until(lambda: scene.group.ends == [10])

    def gone() -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    scene.query._jsq.lastProgress = gone
    with pytest.raises(EngineError, match=r"^Spark's driver.*run\.stop\(\) first, then spark\.stop\(\)\.$"):
        scene.run.wait(10)
    assert scene.group.is_finished
    assert scene.group.is_closed
    assert scene.ended == ["end"]


def test_a_session_that_was_stopped_ends_the_run(scene: SimpleNamespace) -> None:
    """Its query would go on without a sign until there is something to handle: the run says so at once."""
    scene.start()
    scene.is_session_over = True
    with pytest.raises(
        EngineError, match=r"the session was stopped.*run\.stop\(\) first, then spark\.stop\(\)"
    ):
        scene.run.wait(10)
    assert scene.group.is_finished
    assert scene.ended == ["end"]
