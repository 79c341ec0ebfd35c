"""Fault row 28: driver, executor and batch killed; what was handled is that of a clean run, and committed.

A few of each here; `EHKAFKA_LONG=1` makes it 20 each.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import HandlerFailedError
from ehkafka.testing.topics import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka import KafkaBroker

pytest.importorskip("pyspark")

DRIVER = Path(__file__).with_name("driver_program.py")
IS_LONG = os.environ.get("EHKAFKA_LONG") == "1"
PARTITIONS, KEYS = 4, 50


class Target:
    """A topic of its own with records, and a group for it."""

    def __init__(self, kafka: KafkaBroker, records: int) -> None:
        self.topic = f"row28-{uuid.uuid4().hex[:8]}"
        self.group = f"{self.topic}-group"
        self.kafka = kafka
        self.records = 0
        kafka.create_topic(self.topic, PARTITIONS)
        self.add(records)

    def add(self, records: int) -> None:
        """Produce more of them."""
        numbers = range(self.records, self.records + records)
        produce(self.kafka.bootstrap, self.topic, [(f"k{n % KEYS}", str(n)) for n in numbers])
        self.records += records

    def assert_as_a_clean_run(self, journal: Any) -> None:
        """Fail unless each record was handled, first in its key's order, and all of it is committed."""
        handled = {number: set(offsets) for (_, number), offsets in journal.handled().items()}
        assert sum(map(len, handled.values())) == self.records
        ends = {number: len(offsets) for number, offsets in handled.items()}
        assert all(offsets == set(range(ends[number])) for number, offsets in handled.items())
        assert self.kafka.committed(self.group, self.topic) == ends
        first: dict[tuple[str, str], None] = {}
        for _topic, partition, offset, key, *_pid in journal.lines():
            first.setdefault((key, f"{partition}:{int(offset):012d}"))
        last: dict[str, str] = {}
        for key, place in first:
            assert last.get(key, "") < place, "a record of a key was first handled after a later one"
            last[key] = place


@pytest.mark.timeout(4000 if IS_LONG else 900)
def test_row_28_a_killed_driver(
    kafka: KafkaBroker, spark_environment: dict[str, str], journal: Any, tmp_path: Path
) -> None:
    """Row 28: the driver is killed with SIGKILL in the middle of batches and started again each time."""
    kills = 20 if IS_LONG else 2
    target = Target(kafka, 3_000)
    command = [sys.executable, str(DRIVER), kafka.bootstrap, target.group, target.topic]
    command += [str(journal.path), str(tmp_path / "checkpoint")]
    chance = random.Random(28)
    for killed in range(kills + 1):
        target.add(1_000)
        environ = {**os.environ, **spark_environment}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True
        ) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "running\n"
            if killed == kills:
                assert driver.stdout.readline() == "done\n"
                assert driver.wait(120) == 0
                break
            seen = len(journal.lines())
            wanted = seen + chance.randint(1, 1_500)
            while len(journal.lines()) < wanted and driver.poll() is None:
                time.sleep(0.005)
            os.killpg(driver.pid, signal.SIGKILL)
    target.assert_as_a_clean_run(journal)


@pytest.mark.timeout(4000 if IS_LONG else 900)
def test_row_28_a_killed_executor(spark: SparkSession, kafka: KafkaBroker, journal: Any, lab: Any) -> None:
    """Row 28: the process that runs handlers is killed; Spark tries the task again, the query goes on.

    Each round ends before the next one: Spark gives a task up that has died four times.
    """
    kills = 20 if IS_LONG else 2
    target, note = Target(kafka, 500), journal.note
    app = ehkafka.App(group=target.group, start="earliest", endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap))

    @app.handler(target.topic, workers=4)
    def handle(record: ehkafka.Record) -> None:
        note(record.topic(), record.partition(), record.offset(), record.key().decode(), os.getpid())

    run = app.run_on_spark(spark, max_records_per_batch=400)
    for _ in range(kills):
        seen = len(journal.lines())
        target.add(300)
        lab.wait_until(lambda: len(journal.lines()) > seen + 50 or not run.is_running)  # noqa: B023 - of this round
        os.kill(int(journal.lines()[-1][-1]), signal.SIGKILL)
        lab.wait_until(lambda: _handled(journal) == target.records or not run.is_running)
    run.stop()
    target.assert_as_a_clean_run(journal)


@pytest.mark.timeout(4000 if IS_LONG else 900)
def test_row_28_a_failed_batch(spark: SparkSession, kafka: KafkaBroker, journal: Any, tmp_path: Path) -> None:
    """Row 28: batches fail for good and end the query; each start goes on, and ends as a clean run does."""
    failures = 20 if IS_LONG else 2
    target, note = Target(kafka, 400), journal.note
    chance = random.Random(28)
    for failed in range(failures + 1):
        target.add(300)
        poison = -1 if failed == failures else chance.randrange(target.records - 300, target.records)
        app = ehkafka.App(
            group=target.group, start="earliest", endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap)
        )

        @app.handler(target.topic, workers=4)
        def handle(record: ehkafka.Record, poison: int = poison) -> None:
            if int(record.value()) == poison:
                raise LookupError(poison)
            note(record.topic(), record.partition(), record.offset(), record.key().decode())

        run = app.run_on_spark(
            spark, available_now=True, max_records_per_batch=150, checkpoint=str(tmp_path / "checkpoint")
        )
        if failed == failures:
            run.wait(400)
        else:
            with pytest.raises(HandlerFailedError, match=f"LookupError: {poison}"):
                run.wait(400)
    target.assert_as_a_clean_run(journal)


def _handled(journal: Any) -> int:
    return sum(len(set(offsets)) for offsets in journal.handled().values())
