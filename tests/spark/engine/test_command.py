"""`ehkafka run --engine spark` as a process: a session of its own, signals, exit codes, bad options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")

HOMES = """
    import os, time
    import ehkafka

    app = ehkafka.App(group="g", start="earliest", endpoint=ehkafka.Endpoint.kafka("BOOTSTRAP"))

    @app.handler("t", workers=2)
    def handle(record):
        file = os.open("JOURNAL", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"t {record.partition()} {record.offset()} {record.key().decode()}\\n".encode())
        os.close(file)
        time.sleep(0.001)
"""


@pytest.mark.timeout(120)
def test_a_signal_stops_it_after_the_running_batch(
    spark_environment: dict[str, str],
    broker: EmbeddedBroker,
    produced: Any,
    journal: Any,
    lab: Any,
    tmp_path: Path,
) -> None:
    """SIGTERM lets the batch end and commits it: exit code 0, and the group stands where handling ended."""
    code = dedent(HOMES).replace("BOOTSTRAP", broker.bootstrap).replace("JOURNAL", str(journal.path))
    (tmp_path / "homes_of_tests.py").write_text(code)
    produced(5_000)
    command = [sys.executable, "-m", "ehkafka.cli", "run", "homes_of_tests", "--engine", "spark"]
    command += ["--master", "local[2]", "--checkpoint", str(tmp_path / "c"), "--batch-records", "500"]
    with subprocess.Popen(
        [*command, "--spark-conf", "spark.driver.memory=512m"],
        cwd=tmp_path,
        env={**os.environ, **spark_environment},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lab.wait_until(lambda: len(journal.lines()) > 600)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    handled = {number: len(set(offsets)) for (_, number), offsets in journal.handled().items()}
    assert sum(handled.values()) < 5_000
    assert broker.committed("g", "t") == handled
    assert f"{sum(handled.values())} finished" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checkpoint", "c"], "--checkpoint: only with --engine spark"),
        (["--engine", "spark", "--spark-conf", "ui=off"], "--spark-conf 'ui'"),
        (["--engine", "spark", "--new-checkpoint"], "new_checkpoint needs checkpoint"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: list[str], said: str) -> None:
    """Spark's options without Spark, and those that contradict each other, end with code 2 and one line."""
    (tmp_path / "homes_of_tests.py").write_text(dedent(HOMES).replace("BOOTSTRAP", "127.0.0.1:1"))
    found = subprocess.run(
        [sys.executable, "-m", "ehkafka.cli", "run", "homes_of_tests", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr
