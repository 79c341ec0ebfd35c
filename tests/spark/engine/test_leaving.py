"""A worker process that ends behind its task: in a loop like that of Spark's daemon, not in another one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Runs tasks as Spark's daemon does: one after the other, with a collection in between.
DAEMON = """
import gc, sys, threading

def task(number):
    from ehkafka.spark.engine.tasks.leaving import end_process_after_task
    print("begins", number, flush=True)
    threading.Thread(target=threading.Event().wait).start()  # nothing would ever end it
    print(end_process_after_task(["a thread"]))
    gc.collect()  # inside of a task: too early
    print("result", number)

def NAME():
    for number in range(2):
        task(number)
        gc.collect()

threading.Thread(target=lambda: None).start()
NAME()
import os
sys.stdout.flush()
os._exit(3)
"""

# Comes before it: the errors' stream is a pipe whose reader is gone.
BROKEN = """
import io, sys

class Broken(io.StringIO):
    def flush(self):
        raise BrokenPipeError

sys.stderr = Broken()
"""


@pytest.mark.parametrize(
    ("name", "before", "lines", "code"),
    [
        # Not before the task's result is out, and before the next task begins, whatever thread still runs.
        ("manager", "", ["begins 0", "True", "result 0"], 0),
        # A broken pipe when the streams are flushed at the end must not keep the process, and what it left.
        ("manager", BROKEN, ["begins 0", "True", "result 0"], 0),
        # Under an unknown daemon no caller would end the process: the task then raises.
        ("serve", "", ["begins 0", "False", "result 0", "begins 1", "False", "result 1"], 3),
    ],
    ids=["between tasks", "no reader", "unknown daemon"],
)
def test_a_process_ends_between_its_task_and_the_next(
    tmp_path: Path, name: str, before: str, lines: list[str], code: int
) -> None:
    """In a loop of that name, which is Spark's or not."""
    program = tmp_path / "pyspark" / "daemon.py"
    program.parent.mkdir()
    program.write_text(before + DAEMON.replace("NAME", name))
    command = [sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.stdout.splitlines(), ended.returncode) == (lines, code)
    assert ("a thread" in ended.stderr) == (code == 0 and not before)
