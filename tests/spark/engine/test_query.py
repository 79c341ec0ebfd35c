"""The engine on a Spark session and the embedded broker: outcomes, commits, stops, checkpoints, refusals."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import ehkafka
from ehkafka.checkpoints.memory_store import MemoryStore
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.errors import (
    AbandonedError,
    ConfigurationError,
    EndpointError,
    HandlerFailedError,
    TopicNotFoundError,
)
from ehkafka.progress.ranges import MOVED
from ehkafka.testing.topics import committed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")

pytestmark = pytest.mark.timeout(900)


def _noting(app: ehkafka.App, note: Callable[..., None], topic: str = "t", **options: Any) -> None:
    def handle(record: ehkafka.Record) -> None:
        note(record.topic(), record.partition(), record.offset(), record.key().decode())

    app.handler(topic, **options)(handle)


def _assert_once(journal: Any, count: int) -> None:
    """Fail unless each record was handled exactly once and each key in its order."""
    lines = journal.lines()
    assert len(lines) == len({tuple(line[:3]) for line in lines}) == count
    last: dict[tuple[str, str], int] = {}
    for topic, _partition, offset, key in lines:
        assert last.get((topic, key), -1) < int(offset)
        last[topic, key] = int(offset)


def test_a_backlog_is_handled_once_and_committed(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any
) -> None:
    """Each record once in its key's order over several batches; the group's commits are the logs' ends.

    The trap: a second action on a batch would run its handlers a second time.
    """
    produced(3_000)
    app = app_at()
    told: list[str] = []
    app.on_start(lambda: told.append("start"))
    app.on_stop(lambda: told.append("stop"))
    _noting(app, journal.note, workers=4)
    run = app.run_on_spark(spark, available_now=True, max_records_per_batch=1_000)
    assert run.wait(400)
    _assert_once(journal, 3_000)
    assert run.counts == {
        "received": 3_000,
        "finished": 3_000,
        "skipped": 0,
        "dead_lettered": 0,
        "retried": 0,
    }
    assert run.batches >= 3
    assert broker.committed("g", "t") == {n: len(o) for n, o in _offsets(journal).items()}
    assert told == ["start", "stop"]
    assert not run.is_running


def _offsets(journal: Any) -> dict[int, list[int]]:
    return {partition: offsets for (_topic, partition), offsets in sorted(journal.handled().items())}


def test_a_graceful_stop_commits_the_end_and_the_next_start_repeats_nothing(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any, lab: Any
) -> None:
    """L1: a stop lets the running batch end and commits it; the group is where handling ended.

    The traps: the source's own commit() runs a batch late, and events may come after stop() has returned.
    """
    total = produced(2_000)
    note = journal.note
    for _ in range(2):
        app = app_at()

        @app.handler("t", workers=2)
        def handle(record: ehkafka.Record) -> None:
            time.sleep(0.001)
            note(record.topic(), record.partition(), record.offset(), record.key().decode())

        before = len(journal.lines())
        run = app.run_on_spark(spark, max_records_per_batch=200)
        lab.wait_until(lambda: run.batches and len(journal.lines()) > before + 250)  # noqa: B023 - of this round
        run.stop()
        handled = {number: len(offsets) for number, offsets in _offsets(journal).items()}
        assert broker.committed("g", "t") == handled
    assert sum(handled.values()) < total
    _assert_once(journal, sum(handled.values()))
    app = app_at()
    _noting(app, note)
    app.run_on_spark(spark, available_now=True).wait(400)
    _assert_once(journal, total)


def test_f1_a_failure_with_stop_ends_the_run_and_commits_nothing_past_it(
    spark: SparkSession, broker: EmbeddedBroker, app_at: Any, journal: Any
) -> None:
    """F1: Stop() ends the run with one error on the driver that names the record; the group stays.

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


def test_dead_letters_go_to_their_topic_from_executors(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any
) -> None:
    """F6: what fails for good is in the dead-letter topic before its batch counts; the rest is finished."""
    produced(400)
    app, note = app_at(), journal.note

    @app.handler("t", retry=ehkafka.Retry(attempts=2, first_s=0.01), on_failure=ehkafka.DeadLetter("dead"))
    async def handle(record: ehkafka.Record) -> None:
        if int(record.value()) % 20 == 0:
            raise ValueError(record.value())
        note(record.topic(), record.partition(), record.offset(), record.key().decode())

    run = app.run_on_spark(spark, available_now=True)
    assert run.wait(400)
    assert (run.counts["finished"], run.counts["dead_lettered"], run.counts["retried"]) == (380, 20, 20)
    found: list[bytes] = []
    later = app_at(group="letters")

    @later.handler("dead")
    def take(record: ehkafka.Record) -> None:
        found.append(record.value())

    with later:
        deadline_s = time.monotonic() + 120
        while len(found) < 20 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert sorted(map(int, found)) == list(range(0, 400, 20))


def test_a_checkpoint_goes_on_and_is_compared_with_the_group(
    spark: SparkSession,
    broker: EmbeddedBroker,
    produced: Any,
    app_at: Any,
    journal: Any,
    lab: Any,
    tmp_path: Path,
) -> None:
    """A second start goes on; a group that a consumer moved on is refused, --new-checkpoint follows it."""
    where = str(tmp_path / "checkpoint")

    def run(**choices: Any) -> None:
        app = app_at()
        _noting(app, journal.note)
        app.run_on_spark(spark, available_now=True, checkpoint=where, **choices).wait(400)

    total = produced(300)
    run()
    total += produced(100)
    run()
    _assert_once(journal, total)

    # The embedded broker keeps a group for its members for good, so a consumer's commits are made for it.
    total += produced(200)
    _commit(broker, _ends(broker))
    with pytest.raises(ConfigurationError, match=r"checkpoint \d+, group \d+.*--new-checkpoint"):
        run()
    total += produced(50)
    run(new_checkpoint=True)
    run()
    _assert_once(journal, total - 200)
    assert sum(v or 0 for v in committed(broker.bootstrap, "g", "t").values()) == total


def test_a_late_commit_is_made_up_for_from_the_checkpoint(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any, tmp_path: Path
) -> None:
    """A driver that was killed before its commits repeats nothing that its checkpoint knows to be done."""
    where, note = str(tmp_path / "checkpoint"), journal.note
    total = produced(200)
    app = app_at()
    _noting(app, note)
    app.run_on_spark(spark, available_now=True, checkpoint=where).wait(400)
    ends = broker.committed("g", "t")
    _commit(broker, dict.fromkeys(range(4), 0), MOVED)  # as `ehkafka offsets reset` does
    with pytest.raises(ConfigurationError, match="somebody has moved the group's commits"):
        app.run_on_spark(spark, available_now=True, checkpoint=where)
    _commit(broker, dict.fromkeys(range(4), 0))  # as if none of the commits had been made
    total += produced(40)
    app = app_at()
    _noting(app, note)
    app.run_on_spark(spark, available_now=True, checkpoint=where).wait(400)
    _assert_once(journal, total)
    after = broker.committed("g", "t")
    assert all((after[n] or 0) >= (ends[n] or 0) for n in ends)
    assert sum(v or 0 for v in after.values()) == total


def _commit(broker: EmbeddedBroker, offsets: dict[int, int], metadata: str = "") -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        wanted = [TopicPartition("t", n, at, metadata=metadata) for n, at in offsets.items()]
        consumer.commit(offsets=wanted, asynchronous=False)
    finally:
        consumer.close()


def test_checkpoints_of_others_are_refused(
    spark: SparkSession, produced: Any, app_at: Any, journal: Any, tmp_path: Path
) -> None:
    """A checkpoint of another group or topic, or a folder of something else, is one error that says whose."""
    where = str(tmp_path / "checkpoint")
    produced(10)
    app = app_at()
    _noting(app, journal.note)
    app.run_on_spark(spark, available_now=True, checkpoint=where).wait(400)
    other = app_at(group="h")
    _noting(other, journal.note)
    with pytest.raises(ConfigurationError, match="group 'g' instead of 'h'"):
        other.run_on_spark(spark, checkpoint=where)
    topic = app_at()
    _noting(topic, journal.note, "u")
    with pytest.raises(ConfigurationError, match=r"topics \('t',\) instead of \('u',\)"):
        topic.run_on_spark(spark, checkpoint=where)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("x")
    with pytest.raises(ConfigurationError, match="is no folder of ehkafka's"):
        app.run_on_spark(spark, checkpoint=str(tmp_path / "full"))


def test_what_is_missing_is_told_before_the_first_batch(
    spark: SparkSession, app_at: Any, lab: Any, journal: Any
) -> None:
    """No topic, no topic for dead letters, no broker, a handler that cannot be pickled: one error each."""
    app = app_at()
    _noting(app, journal.note, "nowhere")
    with pytest.raises(TopicNotFoundError, match="'nowhere'"):
        app.run_on_spark(spark)
    app = app_at()
    _noting(app, journal.note, on_failure=ehkafka.DeadLetter("lost"))
    with pytest.raises(TopicNotFoundError, match=r"'lost'.*Dead letters"):
        app.run_on_spark(spark)
    app = lab.make_app(connect_s=0.5)
    _noting(app, journal.note)
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


def test_a_batch_that_outlasts_the_stop_is_cut_off_and_told(
    spark: SparkSession, broker: EmbeddedBroker, app_at: Any, journal: Any, lab: Any
) -> None:
    """L3: a stop whose time is over says that the batch was cut off; none of it is committed."""
    broker.produce("u", [(b"k", b"%d" % n) for n in range(3)])
    app, note = app_at(), journal.note

    @app.handler("u")
    def handle(record: ehkafka.Record) -> None:
        note(record.topic(), record.partition(), record.offset(), "k")
        time.sleep(120)

    run = app.run_on_spark(spark)
    lab.wait_until(journal.lines)
    began_s = time.monotonic()
    with pytest.raises(AbandonedError, match="cut off"):
        run.stop(timeout_s=0.5)
    assert time.monotonic() - began_s < 60
    assert broker.committed("g", "u") == {0: 0}


def test_the_mirror_follows_the_commits(
    spark: SparkSession, produced: Any, app_at: Any, journal: Any
) -> None:
    """The mirror has what the group has, with the last record's time by which the log can be told again."""
    produced(100)
    store = MemoryStore()
    app = app_at(mirror=StoreMirror(store=store, interval_s=0.1, namespace="here"))
    _noting(app, journal.note)
    app.run_on_spark(spark, available_now=True).wait(400)
    ends = {number: max(offsets) for number, offsets in _offsets(journal).items()}
    for number, last in ends.items():
        blob = store.read(f"here/t/g/checkpoint/{number}")
        assert blob is not None
        assert blob.metadata["sequencenumber"] == str(last)
        assert b"anchor" in blob.body


def test_a_start_at_latest_is_committed_before_the_first_batch(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any, lab: Any
) -> None:
    """What arrives between two runs of a group that began at `latest` is not skipped."""
    produced(50)
    app = app_at(start="latest")
    _noting(app, journal.note)
    before = _ends(broker)
    app.run_on_spark(spark, available_now=True).wait(400)
    assert broker.committed("g", "t") == before
    assert journal.lines() == []
    produced(30)
    app = app_at(start="latest")
    _noting(app, journal.note)
    app.run_on_spark(spark, available_now=True).wait(400)
    assert len(journal.lines()) == 30


def _ends(broker: EmbeddedBroker) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    found = {n: consumer.get_watermark_offsets(TopicPartition("t", n))[1] for n in range(4)}
    consumer.close()
    return found
