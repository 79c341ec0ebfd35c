"""The engine on a Spark session and the embedded broker: outcomes, commits, stops, checkpoints, refusals."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.errors import (
    ConfigurationError,
    EndpointError,
    HandlerFailedError,
    TopicNotFoundError,
)
from tests.contract.outputs_order import problems
from tests.kit.topic_read import read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")

pytestmark = pytest.mark.timeout(900)


def test_a_backlog_is_handled_once_and_committed(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any, lab: Any
) -> None:
    """Each record once in its key's order over several batches; the group's commits are the logs' ends.

    The trap: a second action on a batch would run its handlers a second time.
    """
    produced(3_000)
    app = app_at()
    reported: list[str] = []
    app.on_start(lambda: reported.append("start"))
    app.on_stop(lambda: reported.append("stop"))
    lab.noting(app, journal.note, workers=4)
    run = app.run_on_spark(spark, available_now=True, max_records_per_batch=1_000)
    assert run.wait(400)
    lab.assert_once(journal, 3_000)
    assert run.counts == {
        "received": 3_000,
        "finished": 3_000,
        "skipped": 0,
        "dead_lettered": 0,
        "retried": 0,
    }
    assert run.batches >= 3
    assert broker.committed("g", "t") == {n: len(o) for n, o in journal.offsets().items()}
    assert reported == ["start", "stop"]
    assert not run.is_running
    shown = app.snapshot()
    assert (shown.state, shown.finished_records, app.health().ok) == ("stopped", 3_000, False)


def test_a_failure_with_stop_ends_the_run_and_commits_nothing_past_it(
    spark: SparkSession, broker: EmbeddedBroker, app_at: Any, journal: Any
) -> None:
    """Stop() ends the run with one error on the driver that names the record; the group stays.

    The trap: Spark tries a failed task again (`spark.task.maxFailures`), and would call handlers again.
    """
    broker.produce("u", [(b"k", b"%d" % n) for n in range(20)])
    app, note = app_at(), journal.note

    @app.handler("u", retry=ehkafka.Retry(attempts=2, first_s=0.01))
    def handle(record: ehkafka.Record) -> None:
        note(record.topic(), record.partition(), record.offset())
        if record.offset() == 7:
            raise LookupError("no such home")

    run = app.run_on_spark(spark, available_now=True)
    with pytest.raises(
        HandlerFailedError, match=r"^Handler 'handle' failed at u\[0\]@7, key k.*no such home"
    ):
        run.wait(400)
    assert run.failure is not None
    assert run.failure.exit_code == 1
    assert broker.committed("g", "u") == {0: 0}
    assert journal.handled() == {("u", 0): [0, 1, 2, 3, 4, 5, 6, 7, 7]}


def test_outputs_are_in_their_topics_before_their_batch_is_committed(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any
) -> None:
    """By coroutines and decoders, over several batches and tasks, to two topics; each once, in order."""
    broker.create_topic("out", 2)
    total = produced(1_000)
    app = app_at()

    @app.handler("t", to=["out", "dead"])
    async def handle(record: ehkafka.Record, number: int) -> list[ehkafka.Send]:
        more = [] if number % 10 else [ehkafka.Send({"n": number}, key="all", topic="dead")]
        return [ehkafka.Send(str(number)), *more]

    run = app.run_on_spark(spark, available_now=True, max_records_per_batch=300)
    assert run.wait(400)
    assert run.counts["finished"] == total
    wanted = {b"k%d" % key: [b"%d" % n for n in range(key, total, 40)] for key in range(40)}
    assert problems(wanted, read_all(broker.bootstrap, "out"), repeats=False) == []
    assert len(read_all(broker.bootstrap, "dead")) == 100


def test_what_is_missing_is_reported_before_the_first_batch(
    spark: SparkSession, app_at: Any, lab: Any, journal: Any
) -> None:
    """No topic, none for letters or outputs, no broker, a handler that cannot be pickled: one error each."""
    app = app_at()
    lab.noting(app, journal.note, "nowhere")
    with pytest.raises(TopicNotFoundError, match="'nowhere'"):
        app.run_on_spark(spark)
    app = app_at()
    lab.noting(app, journal.note, on_failure=ehkafka.DeadLetter("lost"))
    with pytest.raises(TopicNotFoundError, match=r"'lost'.*dead letters"):
        app.run_on_spark(spark)
    app = app_at()
    lab.noting(app, journal.note, to="unwritten")
    with pytest.raises(TopicNotFoundError, match=r"'unwritten'.*correct to="):
        app.run_on_spark(spark)
    app = lab.make_app(connect_s=0.5)
    lab.noting(app, journal.note)
    with pytest.raises(EndpointError, match=r"127\.0\.0\.1:1"):
        app.run_on_spark(spark)
    app, lock = app_at(), threading.Lock()

    @app.handler("t")
    def guilty(record: ehkafka.Record) -> None:
        with lock:
            pass

    with pytest.raises(ConfigurationError, match="handler 'guilty' cannot be sent"):
        app.run_on_spark(spark)
    with pytest.raises(ConfigurationError, match="max_records_per_batch=0"):
        app.run_on_spark(spark, max_records_per_batch=0)
    with pytest.raises(ConfigurationError, match="new_checkpoint needs checkpoint"):
        app.run_on_spark(spark, new_checkpoint=True)


def test_the_mirror_follows_the_commits(
    spark: SparkSession, produced: Any, app_at: Any, journal: Any, lab: Any
) -> None:
    """The mirror has what the group has, with the last record's time, by which the log is recognised."""
    produced(100)
    store = MemoryStore()
    app = app_at(mirror=StoreMirror(store=store, interval_s=0.1, namespace="here"))
    lab.noting(app, journal.note)
    assert app.run_on_spark(spark, available_now=True).wait(400)
    ends = {number: max(offsets) for number, offsets in journal.offsets().items()}
    for number, last in ends.items():
        blob = store.read(f"here/t/g/checkpoint/{number}")
        assert blob is not None
        assert blob.metadata["sequencenumber"] == str(last)
        mirrored = read_checkpoint(blob.body)
        assert mirrored is not None
        assert mirrored.facts.witness is not None
