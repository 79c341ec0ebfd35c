"""How a query is followed, without Spark: what counts as a finished batch, how it stops and what ends it."""

from __future__ import annotations

import logging
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from ehkafka.errors import (
    EhkafkaError,
    EngineError,
    GroupInUseError,
    HandlerFailedError,
    OffsetGapError,
    UnfinishedError,
)
from ehkafka.events import AppStopped, AppStopping, BatchesFinished
from ehkafka.records import TopicPartition
from ehkafka.spark.engine import run
from ehkafka.spark.engine.batches import Batches, BatchFailedError
from ehkafka.spark.engine.follow import STARTS_MAX, Follower
from ehkafka.spark.engine.run import SparkRun
from ehkafka.spark.engine.tasks import last_tasks
from ehkafka.spark.engine.tasks.results import PartitionResult, failed_task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ehkafka.spark.source.offsets import StreamOffset

P0 = TopicPartition("t", 0)


class FakeGroup:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.taken: GroupInUseError | None = None
        self.late: list[TopicPartition] = []
        self.trouble: str | None = None
        self.is_finished = self.is_closed = False
        self.served = 0
        # How long the last commit might take, and from then on the end of the client.
        self.finish_s = self.close_s = 0.0

    def note(self, ended: StreamOffset, _lasts: object) -> None:
        """Take a batch's end."""
        self.ends.append(ended.positions[P0])

    def serve(self, _timeout_s: float) -> None:
        """Take a moment."""
        self.served += 1
        time.sleep(0.001)

    def lost(self) -> GroupInUseError | None:
        """Return what the test says."""
        return self.taken

    @property
    def commits(self) -> FakeGroup:
        """Return what commits, which is this, too."""
        return self

    def finish(self, timeout_s: float) -> list[TopicPartition]:
        """Return whose commit failed."""
        self.is_finished = True
        self.finish_s = timeout_s
        return self.late

    def close(self, *, deadline_s: float) -> None:
        """Note it."""
        self.is_closed = True
        self.close_s = deadline_s - time.monotonic()


@pytest.fixture
def scene(tmp_path: Path, lab: Any) -> Iterator[SimpleNamespace]:
    """Return a query, its group and what follows it; `scene.start()` begins."""
    query, group, events = lab.FakeQuery(), FakeGroup(), []
    ended: list[str] = []
    scene = SimpleNamespace(query=query, group=group, events=events, ended=ended, stop_file=tmp_path / "stop")
    scene.is_session_over = False
    scene.end = lambda: ended.append("end")

    def on_end() -> None:
        scene.end()

    scene.queries = [query]
    follower = Follower(
        query.batches,
        group,  # type: ignore[arg-type]
        stop_file=scene.stop_file,
        is_session_over=lambda: scene.is_session_over,
        stop_s=5.0,
        emit=events.append,
        on_stop=on_end,
        on_end=lambda: None,
    )
    follower.begin(lambda: scene.queries.pop(0))
    scene.run = SparkRun(follower)
    scene.start = threading.Thread(target=follower.run, daemon=True).start
    scene.follower, scene.stop_s = follower, follower.stop_s
    yield scene
    scene.run.query.is_busy = False
    follower.request_stop("the test is over")
    assert follower.done.wait(10)


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
    """C7: the machine's clock tells progress apart, not which is later; the last batches are committed."""
    scene.query.add(0, 10, received=10)
    scene.start()
    lab.wait_until(lambda: scene.group.ends == [10])
    for batch, end in ((1, 25), (2, 30)):
        scene.query.add(batch, end, received=10, timestamp=f"2025-12-31T23:00:0{batch}.000Z")
    scene.run.stop()
    assert scene.group.ends[-1] == 30
    assert scene.run.batches == 3


def test_the_last_batch_counts_though_the_query_has_ended(scene: SimpleNamespace) -> None:
    """A query that ends by itself has told all its progress by then, and that is committed."""
    scene.query.add(0, 10, received=10)
    scene.query.isActive = False
    scene.start()
    assert scene.run.wait(10)
    assert scene.group.ends == [10]
    assert scene.group.is_closed
    assert scene.ended == ["end"]
    assert scene.events == [BatchesFinished(1, 10, 0.25, 30), AppStopped(0, 0)]


def test_a_stop_waits_for_the_running_batch(scene: SimpleNamespace, lab: Any) -> None:
    """Nothing new is planned once a stop is asked for, and the query ends between two batches."""
    scene.query.is_busy = True
    scene.start()
    scene.run.request_stop("SIGTERM")
    lab.wait_until(scene.stop_file.exists)
    assert scene.query.isActive
    scene.query.add(0, 10, received=10)
    scene.query.is_busy = False
    assert scene.run.wait(10)
    assert scene.query.stopped_while_busy is False
    assert scene.group.ends == [10]
    assert [one.reason for one in scene.events if isinstance(one, AppStopping)] == ["SIGTERM"]


def test_a_run_that_stops_still_answers_for_its_group(scene: SimpleNamespace, lab: Any) -> None:
    """While its last batch runs nobody takes it for dead, and it notices when the group is taken away."""
    scene.query.is_busy = True
    scene.start()
    scene.run.request_stop("SIGTERM")
    lab.wait_until(scene.stop_file.exists)
    served = scene.group.served
    lab.wait_until(lambda: scene.group.served > served, 10)
    scene.group.taken = GroupInUseError("somebody else")
    began_s = time.monotonic()
    with pytest.raises(GroupInUseError, match="somebody else"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is True
    assert time.monotonic() - began_s < scene.stop_s


def test_a_batch_that_outlasts_the_stop_is_cut_off(scene: SimpleNamespace) -> None:
    """L3: when the stop's time is over the batch is cut off, and the error says what becomes of it."""
    scene.query.is_busy = True
    scene.start()
    with pytest.raises(UnfinishedError, match=r"cut off.*handled again"):
        scene.run.stop(timeout_s=0.05)
    assert scene.query.stopped_while_busy is True
    assert scene.run.failure.exit_code == 4


def test_a_second_request_may_cut_the_batch_off_at_once(scene: SimpleNamespace, lab: Any) -> None:
    """L3: who does not want to wait for the running batch leaves, and is told what becomes of it."""
    scene.query.is_busy = True
    scene.start()
    scene.run.request_stop("SIGINT")
    lab.wait_until(scene.stop_file.exists)
    assert not scene.run.wait(0.05)
    scene.run.leave_now()
    with pytest.raises(UnfinishedError, match="cut off"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is True


def test_what_ended_the_query_is_told_as_ours(scene: SimpleNamespace) -> None:
    """An error of a task, found in what Spark says, is what wait() raises."""
    scene.query.error = RuntimeError(
        "Job aborted\nehkafka.errors.HandlerFailedError: Handler 'h' failed. Fix it.\n\tat x"
    )
    scene.query.isActive = False
    scene.start()
    with pytest.raises(HandlerFailedError, match=r"^Handler 'h' failed\. Fix it\.$"):
        scene.run.wait(10)


def test_f1_a_stopped_task_ends_the_run_with_its_own_error(
    scene: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """F1: the row of a task that a policy has stopped fails its batch; only the run's error tells of it."""
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
    """What Spark says of a task that failed for good is told as ours."""

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
    """What would have been started again has not failed when somebody wants it to stop just then."""
    scene.query.error = RuntimeError("Python worker failed to connect back.")
    scene.query.isActive = False
    scene.run.request_stop()
    scene.start()
    assert scene.run.wait(10)


def test_a_group_that_is_taken_away_ends_the_run(scene: SimpleNamespace) -> None:
    """A consumer that joins meanwhile makes the broker refuse our commits: the run ends and says so."""
    scene.group.taken = GroupInUseError("somebody else")
    scene.start()
    with pytest.raises(GroupInUseError, match="somebody else"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is False


def test_the_batch_of_a_group_that_is_taken_away_is_cut_off(scene: SimpleNamespace) -> None:
    """What it goes on with is handled by somebody else as well: it is not waited for."""
    scene.query.is_busy = True
    scene.group.taken = GroupInUseError("somebody else")
    scene.start()
    began_s = time.monotonic()
    with pytest.raises(GroupInUseError, match="somebody else"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is True
    assert time.monotonic() - began_s < scene.stop_s


def test_a_stop_waits_for_a_query_that_begins(scene: SimpleNamespace, lab: Any) -> None:
    """Before its first trigger a query may be about to repeat a batch of its checkpoint, which ends first."""
    scene.query.says = "Initializing sources"
    scene.start()
    scene.run.request_stop("SIGTERM")
    lab.wait_until(scene.stop_file.exists)
    assert not scene.run.wait(0.1)
    scene.query.is_busy, scene.query.says = True, "Processing new data"
    assert not scene.run.wait(0.1)
    scene.query.add(3, 10, received=10)
    scene.query.is_busy = False
    assert scene.run.wait(10)
    assert scene.query.stopped_while_busy is False
    assert scene.group.ends == [10]


def test_a_query_that_never_gets_to_a_trigger_is_stopped_in_time(scene: SimpleNamespace) -> None:
    """Nothing was cut off, so nothing is told."""
    scene.query.says = "Initializing sources"
    scene.start()
    scene.run.stop(timeout_s=0.05)
    assert scene.query.stopped_while_busy is False


def test_a_driver_that_is_gone_is_told_as_such(scene: SimpleNamespace, lab: Any) -> None:
    """A program that ends its session first: the last commit is made all the same, and on_stop runs."""
    scene.query.add(0, 10, received=10)
    scene.start()
    lab.wait_until(lambda: scene.group.ends == [10])

    def gone() -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    scene.query._jsq.lastProgress = gone
    with pytest.raises(EngineError, match=r"^Spark's driver.*first run\.stop\(\), then spark\.stop\(\)\.$"):
        scene.run.wait(10)
    assert scene.group.is_finished
    assert scene.group.is_closed
    assert scene.ended == ["end"]


def test_a_session_that_was_stopped_ends_the_run(scene: SimpleNamespace) -> None:
    """Its query would go on without a sign until there is something to handle: the run says so at once."""
    scene.start()
    scene.is_session_over = True
    with pytest.raises(
        EngineError, match=r"the session was stopped.*first run\.stop\(\), then spark\.stop\(\)"
    ):
        scene.run.wait(10)
    assert scene.group.is_finished
    assert scene.ended == ["end"]


def test_a_client_that_does_not_close_keeps_no_on_stop_from_running(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the end is made, whatever became of the one before."""

    def fail(*, deadline_s: float) -> None:
        raise OSError("no memory", deadline_s)

    monkeypatch.setattr(scene.group, "close", fail)
    scene.start()
    with pytest.raises(EngineError, match="no memory"):
        scene.run.stop()
    assert scene.ended == ["end"]


def test_a_long_on_stop_function_is_waited_for(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the user's own time, as without Spark: no defect of ours."""
    monkeypatch.setattr(run, "SLACK_S", 0.05)
    may_end = threading.Event()
    monkeypatch.setattr(scene.follower, "stop_s", 0.0)
    scene.end = may_end.wait
    scene.start()
    threading.Timer(0.5, may_end.set).start()
    scene.run.stop()
    assert not scene.run.is_running


def test_a_last_commit_that_fails_is_told(scene: SimpleNamespace) -> None:
    """C7: what was finished since the commit before is handled again, and the stop says so."""
    scene.group.late, scene.group.trouble = [P0], "NOT_COORDINATOR"
    scene.start()
    with pytest.raises(UnfinishedError, match=r"last commit of t\[0\] failed \(NOT_COORDINATOR\)"):
        scene.run.stop()


def test_an_on_stop_function_that_fails_ends_the_run_visibly(scene: SimpleNamespace) -> None:
    """What on_stop raises is the run's error; nobody waits for ever."""

    def fail() -> None:
        raise OSError("pool is gone")

    scene.end = fail
    scene.start()
    with pytest.raises(EhkafkaError, match="OSError: pool is gone"):
        scene.run.stop()
    assert scene.events[-1] == AppStopped(1, 0)


def test_o1_a_run_ends_after_its_last_task(scene: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    """O1: tasks that Spark has cancelled run for seconds: the group is let go and the end told after them.

    Until then the run answers for its group.
    """
    looks = scene.query.tasks = [1] * 12
    left_when_served = set()

    def serve(_timeout_s: float) -> None:
        left_when_served.add(len(looks))

    def finish(_timeout_s: float) -> list[TopicPartition]:
        assert looks == []
        return []

    scene.group.serve = serve
    scene.group.finish = finish
    scene.start()
    with caplog.at_level("WARNING", "ehkafka.spark"):
        scene.run.stop()
    assert caplog.messages == []
    assert left_when_served >= {0, 4, 10}  # each look asks for two jobs


def test_tasks_that_do_not_end_are_told(
    scene: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, lab: Any
) -> None:
    """Spark may have lost sight of a task: a run ends all the same, and says what to look for."""
    monkeypatch.setattr(last_tasks.await_tasks, "__defaults__", (0.1,))
    scene.query.tracker.getStageInfo = lambda _stage: lab.some(SimpleNamespace(numActiveTasks=lambda: 1))
    scene.start()
    with caplog.at_level("WARNING", "ehkafka.spark"):
        scene.run.stop()
    assert "2 tasks of the query still run" in caplog.text


def test_o1_a_client_that_fails_keeps_no_task_from_being_awaited(scene: SimpleNamespace) -> None:
    """O1: whatever becomes of the group's client, nobody may have the group while tasks still run."""
    looks = scene.query.tasks = [1] * 6
    left: list[int] = []

    def serve(_timeout_s: float) -> None:
        raise OSError("no memory")

    def finish(_timeout_s: float) -> list[TopicPartition]:
        left.extend(looks)
        return []

    scene.group.serve, scene.group.finish = serve, finish
    scene.start()
    with pytest.raises(EngineError, match="no memory"):
        scene.run.wait(10)
    assert left == []


@pytest.mark.parametrize(("timeout_s", "least_s", "most_s"), [(0.01, 9.0, 10.0), (40.0, 30.0, 40.0)])
def test_the_last_commit_has_what_is_left_of_the_stop(
    scene: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    timeout_s: float,
    least_s: float,
    most_s: float,
) -> None:
    """L3: a silent broker does not make a stop take its time once more; the mirror has the same deadline."""
    monkeypatch.setattr(scene.follower, "stop_s", 60.0)
    scene.start()
    scene.run.stop(timeout_s)
    assert least_s < scene.group.finish_s <= most_s
    assert scene.group.close_s <= scene.group.finish_s


def test_nobody_waits_for_ever_for_a_run_whose_java_has_ended(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: the text of Java's error is asked of Java, which is gone by then."""

    class GoneError(Py4JError):
        java_exception = SimpleNamespace()

        def __str__(self) -> str:
            raise Py4JNetworkError("Answer from Java side is empty")

    def stop() -> None:
        raise GoneError("An error occurred while calling o12.stop")

    monkeypatch.setattr(GoneError, "__module__", Py4JError.__module__)
    monkeypatch.setattr(scene.query, "stop", stop)
    scene.start()
    scene.run.request_stop("SIGTERM")
    with pytest.raises(EngineError, match="Spark's driver failed under the run"):
        scene.run.wait(10)
    assert scene.ended == ["end"]
