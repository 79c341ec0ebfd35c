"""Row 23 for runs on Spark where the broker has no topic ids: a record in commit and checkpoint tells.

The new log is the longer one, so the group's commits and the checkpoint lie inside of it.
"""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

import ehkafka  # noqa: TC001 - handlers are looked at
from ehkafka.errors import EndpointError, OffsetGapError
from ehkafka.positions.log_asker import Question
from ehkafka.positions.same_log import Reading, Recognised
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts, facts_of
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group.begins import disproved
from ehkafka.spark.engine.group.hand_over import CheckpointState
from ehkafka.spark.engine.group.ownership import Tag
from ehkafka.spark.engine.group.run_commits import is_another_log, position_after
from ehkafka.spark.engine.tasks.results import LastRecord
from ehkafka.spark.source.offsets import StreamOffset

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ehkafka.testing import EmbeddedBroker
    from tests.spark.engine.group_runs import Runs

pytestmark = pytest.mark.timeout(600)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
WITNESS, LATER = (28, 1_700_000_000_000), (79, 1_700_000_100_000)
ID = bytes(range(16))


@pytest.mark.parametrize(
    ("end", "anew", "topic_id", "is_batch", "is_another"),
    [
        (40, {}, None, True, False),
        (20, {}, None, False, True),
        (80, {T0: 0}, None, True, True),
        (30, {T0: 0}, None, True, True),
        (80, {T0: 0}, None, False, False),  # an idle query's, of the batch before
        (80, {T0: 35}, None, True, False),  # retention
        (80, {T1: 0}, None, True, False),
        (80, {T0: 0}, ID, True, True),
        (80, {T0: 0}, ID, False, True),
    ],
)
def test_a_batch_that_went_back_has_begun_another_log(
    end: int, anew: dict[TopicPartition, int], topic_id: bytes | None, *, is_batch: bool, is_another: bool
) -> None:
    """Once: what an idle query tells again of its last batch begins nothing."""
    ids = {} if topic_id is None else {"t": topic_id}
    ended = StreamOffset({T0: end}, topic_ids=ids, anew=anew)
    assert is_another_log(Position(1, 30), T0, ended, is_batch=is_batch) is is_another


@pytest.mark.parametrize(
    ("before", "ended", "last", "after"),
    [
        (LogFacts(), {}, LATER, LogFacts(witness=LATER)),
        (LogFacts(witness=WITNESS), {}, LATER, LogFacts(witness=WITNESS)),
        (LogFacts(witness=(3, 1)), {"witnesses": {T0: WITNESS}}, LATER, LogFacts(witness=WITNESS)),
        (LogFacts(witness=WITNESS), {"topic_ids": {"t": ID}}, LATER, LogFacts(topic_id=ID, witness=LATER)),
        (LogFacts(topic_id=ID, witness=WITNESS), {}, None, LogFacts(topic_id=ID, witness=WITNESS)),
    ],
)
def test_without_an_id_a_commit_carries_what_a_look_has_proved(
    before: LogFacts, ended: dict[str, Any], last: tuple[int, int] | None, after: LogFacts
) -> None:
    """The last record that was handled may be of a new log already."""
    at = position_after(
        Position(1, 30, facts=before),
        T0,
        StreamOffset({T0: 80}, **ended),
        None if last is None else LastRecord(*last, None),
    )
    assert (at.next_offset, at.facts) == (80, after)


def asker(readings: dict[TopicPartition, Reading], error: KafkaException | None = None) -> Any:
    """Return what has read this of the logs."""

    def ask(facts: dict[TopicPartition, LogFacts]) -> Question[Recognised]:
        found = Recognised(facts, readings={one: readings[one] for one in facts if one in readings})
        question = Question(found, lambda: found, error=error)
        question.done.set()
        return question

    return SimpleNamespace(ask=ask)


def test_one_partition_tells_of_its_topic() -> None:
    """Its others have no record, or none that was read in time; other topics, and those with ids, go on."""
    logs = asker({T0: Reading((28, 5)), U0: Reading(WITNESS)})
    facts = {T0: LogFacts(witness=WITNESS), T1: LogFacts(), U0: LogFacts(witness=WITNESS)}
    found = disproved(lambda _facts: {}, logs, facts)
    words = "the record at offset 28 had the timestamp 2023-"
    assert found[T0].startswith(words)
    assert found[T1].startswith(f"topic 't' holds other records (in t[0]: {words}")
    assert set(found) == {T0, T1}


def test_where_the_id_is_known_no_record_is_read() -> None:
    """What tells by ids decides, and nothing is asked."""
    known = {T0: LogFacts(topic_id=ID, witness=WITNESS)}
    assert disproved(lambda facts: dict.fromkeys(facts, "id"), SimpleNamespace(), known) == {T0: "id"}  # type: ignore[arg-type]


def test_a_reading_that_fails_ends_the_start() -> None:
    """In one sentence with the next step."""
    logs = asker({}, KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)))
    with pytest.raises(EndpointError, match=r"did not report whether the topics.*Start again"):
        disproved(lambda _facts: {}, logs, {T0: LogFacts(witness=WITNESS)})


def test_a_group_commit_of_another_log_does_not_decide(runs: Runs, group_commits: Any, produced: Any) -> None:
    """The start ends and says why, or takes the group to the log's beginning, as `on_out_of_range` says."""
    produced(400)
    text = Tag("run-1", "").text_at(50, LogFacts(witness=(48, 1_500_000_000_000)), 4096)
    group_commits({0: (50, text), 1: (50, "")})
    with pytest.raises(
        OffsetGapError, match=r"t\[0\].*record at offset 48 had .* 2017-.*on_out_of_range='earliest'"
    ):
        runs.open().begin()
    run = runs.open(on_out_of_range="earliest")
    assert run.take(run.begin()) == dict.fromkeys((TopicPartition("t", n) for n in range(4)), 0)
    assert [offset for offset, _ in group_commits().values()] == [0, 0, 0, 0]


def test_a_checkpoint_of_another_log_takes_the_group_to_the_new_one(runs: Runs, produced: Any) -> None:
    """Its commits were deleted with the topic; at the checkpoint's place the group would be in the middle."""
    produced(400)
    at = {T0: 50, T1: 50}
    standing = CheckpointState(at, (at,), witnesses={T0: (48, 1_500_000_000_000)})
    group = runs.open()
    group.begin({"t"})
    with pytest.raises(OffsetGapError, match=r"t\[0\].*record at offset 48 .* 2017-.*new_checkpoint=True"):
        group.begin_over(standing)
    group = runs.open(on_out_of_range="earliest")
    group.begin({"t"})
    assert group.begin_over(standing) == {T0: 0, T1: 0}
    assert group.begin_over(CheckpointState(at, (at,))) == {}, (
        "FACT: what is not known disproved a checkpoint"
    )


def make_anew(broker: EmbeddedBroker) -> None:
    """Delete the topic and make it again; its commits go with it here."""
    broker.delete_topic("t")
    broker.create_topic("t", 4)


QUICK = """
from ehkafka import Endpoint
from ehkafka.ranges import log_ids

def make():
    assert log_ids.CHECK_EVERY_S > 1.0
    log_ids.CHECK_EVERY_S = 1.0  # in the process that plans
    return Endpoint.kafka({bootstrap!r})
"""


@pytest.fixture
def checks_often(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> dict[str, str]:
    """Return source options of a run that checks its records each second."""
    module = f"looks_often_{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{module}.py").write_text(QUICK.format(bootstrap=broker.bootstrap))
    spark.sparkContext.addPyFile(str(tmp_path / f"{module}.py"))
    return {"endpointFactory": f"{module}:make"}


def test_a_run_goes_back_with_a_new_log(
    spark: SparkSession, broker: EmbeddedBroker, produced: Any, app_at: Any, journal: Any, tmp_path: Path,
    group_commits: Any, checks_often: dict[str, str], lab: Any,
) -> None:  # fmt: skip
    """Made anew under a run: all is handled; then over its checkpoint, with and without `earliest`."""
    where = str(tmp_path / "checkpoint")

    def app_for(**settings: Any) -> ehkafka.App:
        app = app_at(**settings)
        lab.noting(app, journal.note)
        return app

    def is_whole() -> bool:
        ends = {n: list(range(end)) for n, end in lab.ends_of(broker).items()}
        return {n: sorted(set(offsets)) for n, offsets in journal.offsets().items()} == ends

    def is_committed() -> bool:
        return {n: at for n, (at, _) in group_commits().items()} == lab.ends_of(broker)

    produced(400)
    run = app_for(on_out_of_range="earliest").run_on_spark(
        spark, checkpoint=where, source_options=checks_often
    )
    lab.wait_until(lambda: is_whole() and is_committed())
    make_anew(broker)
    journal.path.unlink()
    produced(800)
    lab.wait_until(lambda: is_whole() and is_committed())
    run.stop()
    assert facts_at(broker, 0).witness is not None
    before = group_commits()
    make_anew(broker)
    journal.path.unlink()
    produced(1600)
    group_commits(before)
    with pytest.raises(
        OffsetGapError, match=r"t\[\d\].*the record at offset \d+ had .* now has.*new_checkpoint=True"
    ):
        app_for().run_on_spark(spark, available_now=True, checkpoint=where)
    assert (
        app_for(on_out_of_range="earliest")
        .run_on_spark(spark, available_now=True, checkpoint=where)
        .wait(400)
    )
    lab.assert_once(journal, 1600)
    assert is_committed()


def facts_at(broker: EmbeddedBroker, number: int) -> LogFacts:
    """Return what the group's commit says of a log."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        [found] = consumer.committed([KafkaPartition("t", number)], timeout=15.0)
        return facts_of(found.offset, found.metadata)
    finally:
        consumer.close()
