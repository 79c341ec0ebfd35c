"""How a query that is followed stops, without Spark: what is waited for and for how long."""

from __future__ import annotations

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
    UnfinishedError,
)
from ehkafka.events import AppStopped, AppStopping
from ehkafka.spark.engine import run
from ehkafka.spark.engine.tasks import last_tasks

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition

from tests.spark.engine.fake_group import P0


def test_a_stop_waits_for_the_running_batch(scene: SimpleNamespace, lab: Any) -> None:
    """Nothing new is planned once a stop is asked for, and the query ends between two batches."""
    scene.query.is_busy = True
    scene.start()
    scene.run.request_stop("SIGTERM")
    lab.wait_until(scene.signs.stop.exists)
    assert scene.query.isActive
    scene.query.add(0, 10, received=10)
    scene.query.is_busy = False
    assert scene.run.wait(10)
    assert scene.query.stopped_while_busy is False
    assert scene.group.ends == [10]
    assert [one.reason for one in scene.events if isinstance(one, AppStopping)] == ["SIGTERM"]


def test_a_run_that_stops_still_watches_its_group(scene: SimpleNamespace, lab: Any) -> None:
    """While its last batch runs it commits, and ends when the group is moved."""
    scene.query.is_busy = True
    scene.start()
    scene.run.request_stop("SIGTERM")
    lab.wait_until(scene.signs.stop.exists)
    served = scene.group.served
    lab.wait_until(lambda: scene.group.served > served, 10)
    scene.group.taken = GroupInUseError("another run")
    began_s = time.monotonic()
    with pytest.raises(GroupInUseError, match="another run"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is True
    assert time.monotonic() - began_s < scene.stop_s


def test_a_batch_that_outlasts_the_stop_is_cut_off(scene: SimpleNamespace) -> None:
    """When the stop's time is over the batch is cut off, and the error says what becomes of it."""
    scene.query.is_busy = True
    scene.start()
    with pytest.raises(UnfinishedError, match=r"cut off.*handled again"):
        scene.run.stop(timeout_s=0.05)
    assert scene.query.stopped_while_busy is True
    assert scene.run.failure.exit_code == 4


def test_a_second_request_may_cut_the_batch_off_at_once(scene: SimpleNamespace, lab: Any) -> None:
    """Who does not want to wait for the running batch leaves, and hears what becomes of it."""
    scene.query.is_busy = True
    scene.start()
    scene.run.request_stop("SIGINT")
    lab.wait_until(scene.signs.stop.exists)
    assert not scene.run.wait(0.05)
    scene.run.exit_now()
    with pytest.raises(UnfinishedError, match="cut off"):
        scene.run.wait(10)
    assert scene.query.stopped_while_busy is True


def test_a_stop_waits_for_a_query_that_begins(scene: SimpleNamespace, lab: Any) -> None:
    """Before its first trigger a query may be about to repeat a batch of its checkpoint, which ends first."""
    scene.query.says = "Initializing sources"
    scene.start()
    scene.run.request_stop("SIGTERM")
    lab.wait_until(scene.signs.stop.exists)
    assert not scene.run.wait(0.1)
    scene.query.is_busy, scene.query.says = True, "Processing new data"
    assert not scene.run.wait(0.1)
    scene.query.add(3, 10, received=10)
    scene.query.is_busy = False
    assert scene.run.wait(10)
    assert scene.query.stopped_while_busy is False
    assert scene.group.ends == [10]


def test_a_query_that_never_gets_to_a_trigger_is_stopped_in_time(scene: SimpleNamespace) -> None:
    """Nothing was cut off, so nothing is reported."""
    scene.query.says = "Initializing sources"
    scene.start()
    scene.run.stop(timeout_s=0.05)
    assert scene.query.stopped_while_busy is False


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


def test_a_last_commit_that_fails_is_reported(scene: SimpleNamespace) -> None:
    """What was finished since the commit before is handled again, and the stop says so."""
    scene.group.late, scene.group.problem = [P0], "NOT_COORDINATOR"
    scene.start()
    with pytest.raises(UnfinishedError, match=r"last commit of t\[0\] failed \(NOT_COORDINATOR\)"):
        scene.run.stop()


def test_an_on_stop_function_that_fails_ends_the_run_visibly(scene: SimpleNamespace) -> None:
    """What on_stop raises is the run's error; no caller waits for ever."""

    def fail() -> None:
        raise OSError("pool is gone")

    scene.end = fail
    scene.start()
    with pytest.raises(EhkafkaError, match="OSError: pool is gone"):
        scene.run.stop()
    assert scene.events[-1] == AppStopped(1, 0)


def test_a_run_ends_after_its_last_task(scene: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    """Tasks that Spark has cancelled run for seconds: the group is let go and the end comes after them."""
    checks = scene.query.tasks = [1] * 12

    def finish(_timeout_s: float) -> list[TopicPartition]:
        assert checks == []
        return []

    scene.group.finish = finish
    scene.start()
    with caplog.at_level("WARNING", "ehkafka.spark"):
        scene.run.stop()
    assert caplog.messages == []


def test_tasks_that_do_not_end_are_reported(
    scene: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, lab: Any
) -> None:
    """Spark may have lost sight of a task: a run ends all the same, and says what to look for."""
    monkeypatch.setattr(last_tasks.await_tasks, "__defaults__", (0.1,))
    scene.query.tracker.getStageInfo = lambda _stage: lab.some(SimpleNamespace(numActiveTasks=lambda: 1))
    scene.start()
    with caplog.at_level("WARNING", "ehkafka.spark"):
        scene.run.stop()
    assert "2 tasks of the query still run" in caplog.text


def test_a_client_that_fails_keeps_no_task_from_being_awaited(scene: SimpleNamespace) -> None:
    """Whatever becomes of the group's client, no other run may have the group while tasks still run."""
    checks = scene.query.tasks = [1] * 6
    left: list[int] = []

    def serve(_timeout_s: float) -> None:
        raise OSError("no memory")

    def finish(_timeout_s: float) -> list[TopicPartition]:
        left.extend(checks)
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
    """A silent broker does not make a stop take its time once more; the mirror has the same deadline."""
    monkeypatch.setattr(scene.follower, "stop_s", 60.0)
    scene.start()
    scene.run.stop(timeout_s)
    assert least_s < scene.group.finish_s <= most_s
    assert scene.group.close_s <= scene.group.finish_s


def test_no_caller_waits_for_ever_for_a_run_whose_java_has_ended(
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
    with pytest.raises(EngineError, match="Spark's driver failed or ended during the run"):
        scene.run.wait(10)
    assert scene.ended == ["end"]
