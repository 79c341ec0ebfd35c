"""A group handed over between consumers and Spark on a real broker."""

from __future__ import annotations

import os
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.errors import GroupInUseError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

pytest.importorskip("pyspark")

IS_LONG = os.environ.get("EHKAFKA_LONG") == "1"
RECORDS, PARTITIONS, KEYS = 100_000 if IS_LONG else 20_000, 8, 1_000
QUICK_GROUP = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 150}


@pytest.mark.timeout(900)
def test_consumer_spark_consumer_spark_handle_each_record_once(
    spark: SparkSession, kafka: KafkaBroker, journal: Any, lab: Any
) -> None:
    """Handed over in the middle of the stream, after graceful stops: each record once, in its key's order.

    `EHKAFKA_LONG=1` makes it 100 000 records.
    """
    topic = f"handover-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, PARTITIONS)
    produce(kafka.bootstrap, topic, ((f"k{n % KEYS}", str(n)) for n in range(RECORDS)), timeout_s=200)
    note = journal.note

    def make_app(**settings: Any) -> ehkafka.App:
        app = ehkafka.App(
            group=f"{topic}-group",
            start="earliest",
            endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap),
            consumer=QUICK_GROUP,
            **settings,
        )

        @app.handler(topic, workers=4)
        def handle(record: ehkafka.Record) -> None:
            note(record.topic(), record.partition(), record.offset(), record.key().decode())

        return app

    def count() -> int:
        with journal.path.open("rb") as file:
            return sum(1 for _ in file)

    def committed() -> int:
        return sum(v or 0 for v in kafka.committed(f"{topic}-group", topic).values())

    journal.path.touch()
    for done in (RECORDS // 5, 3 * RECORDS // 5):
        with make_app(backlog_records_max=RECORDS // 100, consume_records_max=RECORDS // 400):
            lab.wait_until(lambda done=done: count() > done)
        assert count() < RECORDS
        run = make_app().run_on_spark(spark, max_records_per_batch=RECORDS // 25)
        lab.wait_until(lambda run=run: run.batches > 2)
        run.stop()
        assert count() < RECORDS
    with make_app():
        lab.wait_until(lambda: committed() == RECORDS)
    lines = journal.lines()
    firsts = dict.fromkeys(map(tuple, lines))
    assert len(firsts) == RECORDS, "FACT: committed, and never handled"
    lab.assert_key_order((key, int(offset)) for _, _, offset, key in firsts)
    assert committed() == RECORDS
    # No fact: a machine that stands still for a session of three seconds lets records be repeated.
    assert len(lines) == RECORDS


@pytest.mark.timeout(900)
def test_a_group_in_use_is_refused_and_one_taken_away_ends_the_run(
    spark: SparkSession, kafka: KafkaBroker, journal: Any, lab: Any
) -> None:
    """A live consumer holds the group: refused at the start; one that joins later ends the run by name."""
    topic = f"inuse-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    produce(kafka.bootstrap, topic, [(f"k{n}", "x") for n in range(10)])
    note, seen = journal.note, threading.Event()

    def make_app() -> ehkafka.App:
        return ehkafka.App(
            group=f"{topic}-group",
            start="earliest",
            endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap),
            consumer=QUICK_GROUP,
        )

    consumer = make_app()
    consumer.handler(topic)(lambda _record: seen.set())
    on_spark = make_app()
    on_spark.handler(topic)(lambda record: note(record.topic(), record.partition(), record.offset()))
    with consumer:
        assert seen.wait(30)
        with pytest.raises(GroupInUseError, match=r"has 1 member.*Stop its consumers"):
            on_spark.run_on_spark(spark)
    run = on_spark.run_on_spark(spark)
    with consumer:
        lab.wait_until(lambda: consumer.snapshot().partitions)
        produce(kafka.bootstrap, topic, [(f"k{n}", "x") for n in range(50)])
        with pytest.raises(GroupInUseError, match=r"refuses commits of a client|moved by a consumer"):
            run.wait(400)


@pytest.mark.timeout(900)
def test_partitions_that_a_topic_gains_at_any_moment_are_handled_from_their_logs_begin(
    spark: SparkSession, kafka: KafkaBroker, journal: Any, lab: Any, tmp_path: Path
) -> None:
    """Between start and first batch, under a run, while it is stopped with a checkpoint, after a hand-over.

    One of them has lost its first records to retention by then: no run has to handle them: no gap.
    """
    topic = f"grows-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 1)
    note, expected = journal.note, {}

    def grow(partition: int, *, first: int = 0) -> None:
        if partition:
            kafka.create_partitions(topic, partition + 1)
        produce(kafka.bootstrap, topic, [(f"k{n}", "x") for n in range(10)], partition=partition)
        if first:
            kafka.delete_records(topic, partition, first)
        expected[topic, partition] = list(range(first, 10))

    def make_app(**settings: Any) -> ehkafka.App:
        endpoint = ehkafka.Endpoint.kafka(kafka.bootstrap)
        app = ehkafka.App(group=f"{topic}-group", start="latest", endpoint=endpoint, **settings)
        app.handler(topic)(lambda record: note(record.topic(), record.partition(), record.offset()))
        return app

    def handled() -> dict[tuple[str, int], list[int]]:
        return {key: sorted(found) for key, found in journal.handled().items()}

    def all_handled_by(run: Any) -> None:
        lab.wait_until(lambda: handled() == expected or not run.is_running)
        assert handled() == expected, f"FACT: the run ended: {run.failure}"

    checkpoint = str(tmp_path / "checkpoint")
    app = make_app()
    app.on_start(lambda: grow(1))
    with app.run_on_spark(spark, checkpoint=checkpoint) as run:
        all_handled_by(run)
        grow(2)
        all_handled_by(run)
    grow(3, first=4)
    with make_app().run_on_spark(spark, checkpoint=checkpoint) as run:
        all_handled_by(run)
    grow(4)
    with make_app(consumer=QUICK_GROUP):
        lab.wait_until(lambda: handled() == expected)
    grow(5, first=4)
    with make_app().run_on_spark(spark, source_options={"tasks": "2"}) as run:
        all_handled_by(run)
