"""Handlers that outlive their task on a Spark session: never during the next attempt of their own key."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import HandlerFailedError, UnfinishedError
from ehkafka.spark.engine import follow
from ehkafka.spark.engine.tasks.last_tasks import await_tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    import ehkafka
    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")

pytestmark = pytest.mark.timeout(900)
# For so long a handler that hangs notes that it runs: longer than anything else in a test takes.
HANGS_S = 200.0
BEAT_S = 0.01
# A task reads each of so many records by a request of its own, and waits for each answer: half a minute, in
# which it can be refused one.
READ_ALONE = 300
ANSWER_S = 0.1
TASKS_END_S = 60.0


def _hanging_once(note: Callable[..., None], first: Path) -> Callable[[ehkafka.Record], None]:
    """Return a handler whose first call of key `k` does not end, and notes that it runs; others end soon."""
    path = str(first)

    def handle(record: ehkafka.Record) -> None:
        if record.key() != b"k":
            return
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            for _ in range(20):
                note("later", os.getpid(), record.offset())
                time.sleep(BEAT_S)
            return
        ends_s = time.monotonic() + HANGS_S
        while time.monotonic() < ends_s:
            note("hangs", os.getpid(), record.offset())
            time.sleep(BEAT_S)

    return handle


def _assert_apart(journal: Any) -> None:
    """Fail when the call that hangs was seen after a later one of its key had begun."""
    words = [line[0] for line in journal.lines()]
    assert "later" in words
    assert "hangs" not in words[words.index("later") :], "FACT: two handlers of one key at once"


def test_a_call_that_hangs_ends_with_its_task(
    spark: SparkSession, broker: EmbeddedBroker, app_at: Any, journal: Any, tmp_path: Path
) -> None:
    """A thread past its deadline fails the run, and is gone before the next start calls its key again.

    The trap: Spark keeps the worker process for the next task, and the thread goes on in it.
    """
    broker.produce("u", [(b"k", b"0")])
    handle = _hanging_once(journal.note, tmp_path / "first")
    app = app_at(stop_s=0.2)
    app.handler("u", deadline_s=0.5)(handle)
    with pytest.raises(HandlerFailedError, match=r"'handle' has been busy with u\[0\]@0"):
        app.run_on_spark(spark, available_now=True).wait(400)
    hung = int(journal.lines()[-1][1])
    app = app_at(stop_s=0.2)
    app.handler("u")(handle)
    run = app.run_on_spark(spark, available_now=True)
    assert run.wait(400)
    assert run.counts["finished"] == 1
    _assert_apart(journal)
    with pytest.raises(ProcessLookupError):
        os.kill(hung, 0)


def test_a_task_that_is_tried_again_meets_no_call_of_the_attempt_before(
    spark: SparkSession, broker: EmbeddedBroker, app_at: Any, journal: Any, lab: Any, tmp_path: Path
) -> None:
    """Spark tries a task again whose broker refused; what its first attempt left running has ended."""
    broker.produce("u", [(b"k", b"0"), (b"k", b"1")])
    rest = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1})
    for _ in range(READ_ALONE):
        rest.produce("u", b"", b"other")
    assert rest.flush(60.0) == 0
    broker.set_rtt(ANSWER_S)
    app = app_at(stop_s=0.2)
    app.handler("u")(_hanging_once(journal.note, tmp_path / "first"))
    run = app.run_on_spark(spark, available_now=True)
    lab.wait_until(journal.lines)
    # The driver has read what it needs: the next one that asks for records is the task.
    broker.delay_next(ApiKey.FETCH, 0.0, code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    broker.set_rtt(0.0)
    assert run.wait(400)
    assert run.counts["finished"] == 2 + READ_ALONE
    assert {line[2] for line in journal.lines() if line[0] == "hangs"} == {"0"}
    again = [line[2] for line in journal.lines() if line[0] == "later"]
    assert again[0] == "0", "the task was not tried again"
    _assert_apart(journal)


def test_a_batch_that_was_cut_off_has_ended_when_the_run_has(
    spark: SparkSession,
    broker: EmbeddedBroker,
    app_at: Any,
    journal: Any,
    lab: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop that cuts a batch off returns when its handlers are gone: the next start meets none.

    The trap: Spark ends the worker of a cancelled task seconds after the query has stopped.
    """
    # A slow machine may need more than the time after which a run warns and leaves tasks to themselves.
    monkeypatch.setattr(follow, "await_tasks", partial(await_tasks, timeout_s=TASKS_END_S))
    broker.produce("u", [(b"k", b"0")])
    handle = _hanging_once(journal.note, tmp_path / "first")
    app = app_at(stop_s=TASKS_END_S)
    app.handler("u")(handle)
    run = app.run_on_spark(spark)
    lab.wait_until(journal.lines)
    with pytest.raises(UnfinishedError, match="cut off"):
        run.stop(timeout_s=0.1)
    seen = len(journal.lines())
    app = app_at()
    app.handler("u")(handle)
    assert app.run_on_spark(spark, available_now=True).wait(400)
    _assert_apart(journal)
    # No fact: Spark has its daemon kill the worker and counts the task as ended without waiting for that.
    assert "hangs" not in [line[0] for line in journal.lines()[seen:]]
