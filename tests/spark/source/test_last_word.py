"""What the process that plans a query reports when Spark ends it, before PySpark 4.2."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

# The parent stands for the JVM: it starts the process, closes its end of that one's stderr as it sends the
# signal, and sends it twice.
JVM = """
import json, os, signal, subprocess, sys
planner = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
)
planner.stdout.readline()
planner.stderr.close()
planner.send_signal(signal.SIGTERM)
planner.send_signal(signal.SIGTERM)
print(planner.wait(30))
"""
PLANNER = """
import json, sys, time
from ehkafka.spark.source.early_stream_reader import LastWord
word = LastWord()
for end in json.loads(sys.argv[1]):
    word.note(end)
print("ready", flush=True)
time.sleep(60)
"""
CUT = '{"t": {"0": 20, "1": 3}, "#ends": {"t": {"0": 57}}}'
FURTHER = '{"t": {"0": 40, "1": 3}, "#ends": {"t": {"0": 57}}}'
ALL = '{"t": {"0": 57, "1": 3}}'


@pytest.mark.parametrize(
    ("ends", "is_said"),
    [
        ([CUT], True),
        ([CUT, CUT], True),  # one batch, planned twice
        ([CUT, FURTHER], False),  # another trigger, that a user has stopped
        ([ALL], False),
    ],
    ids=["cut", "planned twice", "two batches", "all"],
)
def test_one_batch_that_its_limit_has_cut_is_reported_at_the_querys_end(
    ends: list[str], is_said: bool
) -> None:
    """Once, on the driver's stderr; the process ends by the signal all the same."""
    driver: Any = subprocess.run(
        [sys.executable, "-c", JVM, PLANNER, f"[{', '.join(ends)}]"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert driver.stdout == "-15\n"
    assert driver.stderr.count("WARNING ehkafka.spark: The query ended after one batch, and 37 offsets") == (
        1 if is_said else 0
    )
    assert bool(driver.stderr) is is_said
