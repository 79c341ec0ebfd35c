"""Fault row 28: driver, executor and batch killed; what was handled is that of a clean run, and committed.

Each record has an output, too: of these none is lost, and each key's are in order but for whole repeats.

Two of each here, and one of a driver, whose start takes longest; `EHKAFKA_FAULTS_SCALE=10` makes it twenty of
each, `EHKAFKA_LONG=1` as well. Its seed is that of `tests.kit.fault_runs`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.errors import EngineError, HandlerFailedError
from tests.contract.outputs_order import problems
from tests.kit.checker.verdict import Verdict
from tests.kit.fault_runs import dice_of, note_recovery, note_verdict
from tests.kit.topic_read import read_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

pytest.importorskip("pyspark")

DRIVER = Path(__file__).with_name("driver_program.py")
# How many of each; the seconds that a test may take are by far more than it does.
FAULTS = 20 if os.environ.get("EHKAFKA_LONG") == "1" else 2 * int(os.environ.get("EHKAFKA_FAULTS_SCALE", "1"))
DRIVER_FAULTS = FAULTS if FAULTS > 2 else 1
TIMEOUT_S = 700 + 100 * FAULTS
PARTITIONS, KEYS = 4, 50


class Target:
    """A topic of its own with records, and a group for it."""

    def __init__(self, kafka: KafkaBroker, records: int) -> None:
        self.topic = f"row28-{uuid.uuid4().hex[:8]}"
        self.group = f"{self.topic}-group"
        self.kafka = kafka
        self.records = 0
        kafka.create_topic(self.topic, PARTITIONS)
        kafka.create_topic(out_of(self.topic), PARTITIONS)
        self.add(records)

    def add(self, records: int) -> None:
        """Produce more of them."""
        numbers = range(self.records, self.records + records)
        produce(self.kafka.bootstrap, self.topic, [(f"k{n % KEYS}", str(n)) for n in numbers])
        self.records += records

    def assert_as_a_clean_run(self, journal: Any, recovery_s: Sequence[float]) -> None:
        """Fail unless each record was handled, first in its key's order, and all of it is committed."""
        handled = journal.handled()
        unique = {number: set(offsets) for (_, number), offsets in handled.items()}
        committed = self.kafka.committed(self.group, self.topic)
        count = sum(map(len, unique.values()))
        verdict = Verdict(
            produced=self.records,
            finished=count,
            lost=self.records - count,
            premature_commits=sum(
                len(set(range(end)) - unique.get(number, set())) for number, end in committed.items()
            ),
            order_violations=_late_firsts(journal),
            duplicates=sum(map(len, handled.values())) - count,
        )
        note_verdict("on Spark", verdict)
        note_recovery(recovery_s)
        assert not verdict.violations, f"FACT: {verdict.report()}"
        finished = {number: len(offsets) for number, offsets in unique.items()}
        assert committed == finished, "FACT: other offsets are committed than finished"
        self._assert_outputs()

    def _assert_outputs(self) -> None:
        wanted: dict[bytes, list[bytes]] = {}
        for number in range(self.records):
            wanted.setdefault(b"k%d" % (number % KEYS), []).append(b"%d" % number)
        found = read_all(self.kafka.bootstrap, out_of(self.topic))
        wrong = problems(wanted, found)
        last = dict(found)
        wrong += [f"{key!r} ends with {last[key]}" for key in wanted if last[key] != wanted[key][-1]]
        assert wrong == [], f"FACT: outputs: {wrong[:5]}"


def out_of(topic: str) -> str:
    """Return the topic of its outputs; the driver's program knows it, too."""
    return f"{topic}.out"


def _late_firsts(journal: Any) -> int:
    """Return how many records were first handled after a later one of their key."""
    first: dict[tuple[str, int, int], None] = {}
    for _topic, partition, offset, key, *_pid in journal.lines():
        first.setdefault((key, int(partition), int(offset)))
    last: dict[str, tuple[int, int]] = {}
    late = 0
    for key, *place in first:
        late += last.get(key, (-1, -1)) > tuple(place)
        last[key] = (place[0], place[1])
    return late


@pytest.mark.timeout(TIMEOUT_S)
def test_row_28_a_killed_driver(
    kafka: KafkaBroker, spark_environment: dict[str, str], journal: Any, tmp_path: Path
) -> None:
    """Row 28: the driver is killed with SIGKILL in the middle of batches and started again each time."""
    target = Target(kafka, 1_000)
    command = [sys.executable, str(DRIVER), kafka.bootstrap, target.group, target.topic]
    command += [str(journal.path), str(tmp_path / "checkpoint")]
    chance = dice_of(28)
    recovery_s: list[float] = []
    for killed in range(DRIVER_FAULTS + 1):
        target.add(500)
        environ = {**os.environ, **spark_environment}
        seen, began_s = len(journal.lines()), time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True
        ) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "running\n"
            _wait_for_more(journal, seen, driver)
            if killed:
                recovery_s.append(time.monotonic() - began_s)
            if killed == DRIVER_FAULTS:
                assert driver.stdout.readline() == "done\n"
                assert driver.wait(120) == 0
                break
            _wait_for_more(journal, seen + chance.randint(1, 750), driver)
            os.killpg(driver.pid, signal.SIGKILL)
    target.assert_as_a_clean_run(journal, recovery_s)


def _wait_for_more(journal: Any, seen: int, driver: subprocess.Popen[str]) -> None:
    while len(journal.lines()) <= seen and driver.poll() is None:
        time.sleep(0.005)


@pytest.mark.timeout(TIMEOUT_S)
def test_row_28_a_killed_executor(spark: SparkSession, kafka: KafkaBroker, journal: Any, lab: Any) -> None:
    """Row 28: the process that runs handlers is killed; Spark tries the task again, the query goes on.

    Each round ends before the next one: Spark gives a task up that has died four times.
    """
    target, note = Target(kafka, 500), journal.note
    app = ehkafka.App(group=target.group, start="earliest", endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap))

    @app.handler(target.topic, workers=4, to=out_of(target.topic))
    def handle(record: ehkafka.Record) -> bytes | None:
        time.sleep(0.005)  # so that there is work left when its process is killed
        note(record.topic(), record.partition(), record.offset(), record.key().decode(), os.getpid())
        return record.value()

    run = app.run_on_spark(spark, max_records_per_batch=400)
    recovery_s: list[float] = []
    for _ in range(FAULTS):
        seen = len(journal.lines())
        target.add(300)
        lab.wait_until(lambda: len(journal.lines()) > seen + 50 or not run.is_running)  # noqa: B023 - of this round
        os.kill(int(journal.lines()[-1][-1]), signal.SIGKILL)
        killed_s = time.monotonic()
        lab.wait_until(lambda: _handled(journal) == target.records or not run.is_running)
        recovery_s.append(time.monotonic() - killed_s)
    run.stop()
    target.assert_as_a_clean_run(journal, recovery_s)


@pytest.mark.timeout(TIMEOUT_S)
def test_row_28_a_failed_batch(
    spark: SparkSession, kafka: KafkaBroker, journal: Any, lab: Any, tmp_path: Path
) -> None:
    """Row 28: batches fail for good and end the query; each start goes on, and ends as a clean run does."""
    target, note = Target(kafka, 400), journal.note
    chance = dice_of(28)
    recovery_s: list[float] = []
    for failed in range(FAULTS + 1):
        target.add(300)
        poison = -1 if failed == FAULTS else chance.randrange(target.records - 300, target.records)
        app = ehkafka.App(
            group=target.group, start="earliest", endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap)
        )

        @app.handler(target.topic, workers=4, to=out_of(target.topic))
        def handle(record: ehkafka.Record, poison: int = poison) -> bytes | None:
            if int(record.value()) == poison:
                raise LookupError(poison)
            note(record.topic(), record.partition(), record.offset(), record.key().decode())
            return record.value()

        seen, began_s = len(journal.lines()), time.monotonic()
        ended = None
        # What Spark gives up because the machine is busy has begun nothing: it is one more start.
        while ended is None or "did not start within ten seconds" in str(ended):
            run = app.run_on_spark(
                spark, available_now=True, max_records_per_batch=150, checkpoint=str(tmp_path / "checkpoint")
            )
            lab.wait_until(lambda: len(journal.lines()) > seen or not run.is_running)  # noqa: B023 - of this round
            recovered_s = time.monotonic() - began_s
            ended = _end_of(run)
        if failed:
            recovery_s.append(recovered_s)
        if failed == FAULTS:
            assert ended == ""
        else:
            assert ended.startswith("HandlerFailedError")
            assert f"LookupError: {poison}" in ended
    target.assert_as_a_clean_run(journal, recovery_s)


def _end_of(run: Any) -> str:
    """Return what ended a run; nothing when all was handled."""
    try:
        assert run.wait(400)
    except (HandlerFailedError, EngineError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _handled(journal: Any) -> int:
    return sum(len(set(offsets)) for offsets in journal.handled().values())
