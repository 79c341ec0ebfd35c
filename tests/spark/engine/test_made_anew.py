"""Row 23 for runs on Spark: a topic that is deleted and made again, its new log longer than the old one.

The group's commits and the checkpoint lie inside of the new log, so only the topic's id tells.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ehkafka
from ehkafka.errors import OffsetGapError
from ehkafka.progress.metadata import LogFacts, facts_of
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.batches import Batches
from ehkafka.spark.engine.group.group import Group
from ehkafka.spark.engine.tasks.results import LastRecord
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.telemetry.bus import EventBus
from tests.integration.logs import commit_of, fill, make_anew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

OLD, NEW = 300, 800
OLD_ID = bytes(range(16))


class Stage:
    """A topic and a group of the test's own on a real broker."""

    def __init__(self, broker: KafkaBroker, undo: ExitStack, lab: Any) -> None:
        self.broker, self._undo, self._lab = broker, undo, lab
        self.topic = f"anew-{uuid.uuid4().hex[:8]}"
        self.group = f"{self.topic}-group"
        self.partition = TopicPartition(self.topic, 0)
        broker.create_topic(self.topic, 1)

    def app(self, **settings: Any) -> ehkafka.App:
        """Return an app."""
        return ehkafka.App(
            group=self.group,
            start="earliest",
            endpoint=ehkafka.Endpoint.kafka(self.broker.bootstrap),
            **settings,
        )

    def open(self, **settings: Any) -> Group:
        """Open the group as a run on Spark does, without Spark."""
        app = self.app(**settings)
        app.handler(self.topic)(lambda _record: None)
        bus = EventBus()
        bus.start()
        self._undo.callback(bus.close, 1.0)
        group = Group(self._lab.parts_of(app), bus, lambda _error: None)
        self._undo.callback(group.close, deadline_s=0.0)
        group.open()
        return group

    def facts(self) -> LogFacts:
        """Return what the group's commit says of its log."""
        found = commit_of(self)
        return facts_of(found.offset, found.metadata)


@pytest.fixture
def stage(kafka: KafkaBroker, lab: Any) -> Iterator[Stage]:
    """Return a stage on the session's broker."""
    with ExitStack() as undo:
        yield Stage(kafka, undo, lab)


class LastBatch(NamedTuple):
    """Holds a query's batches."""

    hold: threading.Event
    is_held: threading.Event
    go: threading.Event


def test_commits_of_a_run_carry_the_id_that_its_source_tells(stage: Stage) -> None:
    """The first id, and a new one with a new beginning; without that the next start is to find out."""
    fill(stage, "old", OLD)
    other = bytes(reversed(OLD_ID))
    group = stage.open()
    group.take(group.begin())
    for end, reported, anew, known in (
        (100, OLD_ID, {}, OLD_ID),
        (200, other, {}, OLD_ID),
        (250, other, {stage.partition: 0}, other),
    ):
        ended = StreamOffset({stage.partition: end}, topic_ids={stage.topic: reported}, anew=anew)
        group.commits.note(ended, {stage.partition: LastRecord(90, 1_000, None)})
        assert group.commits.finish(10) == []
        assert (commit_of(stage).offset, stage.facts().topic_id) == (end, known)


@pytest.fixture
def last_batch(monkeypatch: pytest.MonkeyPatch) -> LastBatch:
    """Hold the batches of a query from where `hold` is set until `go` is.

    Meanwhile the query does not ask for its topic: where there is none, it ends.
    """
    last = LastBatch(threading.Event(), threading.Event(), threading.Event())
    run = Batches.__call__

    def held(batches: Batches, frame: Any, batch: int) -> None:
        run(batches, frame, batch)
        if last.hold.is_set():
            last.is_held.set()
            assert last.go.wait(300.0)

    monkeypatch.setattr(Batches, "__call__", held)
    return last


def test_a_running_query_begins_the_new_log_at_its_beginning(
    stage: Stage, spark: SparkSession, journal: Any, lab: Any, tmp_path: Any, last_batch: LastBatch
) -> None:
    """Made anew before a batch ends: all of it is handled; then over the checkpoint, the default ends it."""
    pytest.importorskip("pyspark")
    note = journal.note

    def app_for(**settings: Any) -> ehkafka.App:
        app = stage.app(stop_s=30.0, **settings)

        @app.handler(stage.topic)
        def handle(record: ehkafka.Record) -> None:
            note((record.value() or b"").decode())

        return app

    def wait_until(true: Callable[[], object]) -> None:
        """Wait as long as the run goes on: what has ended it is the error."""
        lab.wait_until(lambda: true() or not run.is_running)
        if not run.is_running:
            run.stop()
        assert true()

    def handled() -> set[str]:
        return {words[0] for words in journal.lines()}

    fill(stage, "old", OLD)
    where = str(tmp_path / "checkpoint")
    run = app_for(on_out_of_range="earliest").run_on_spark(spark, checkpoint=where)
    wait_until(lambda: len(handled()) == OLD)
    wait_until(lambda: stage.facts().topic_id)
    before = stage.facts().topic_id
    last_batch.hold.set()
    fill(stage, "last", 1)
    wait_until(last_batch.is_held.is_set)
    make_anew(stage, NEW)
    last_batch.go.set()
    new = {f"new-{number}" for number in range(NEW)}
    # All of them: the last one may be handled before others, which have another key.
    wait_until(lambda: new <= handled())
    wait_until(lambda: commit_of(stage).offset == NEW)
    run.stop()
    assert stage.facts().topic_id not in (None, before)
    make_anew(stage, NEW)
    with pytest.raises(OffsetGapError, match=r"had the id .*new_checkpoint=True"):
        app_for().run_on_spark(spark, checkpoint=where)
