"""A worker process that ends behind its task: in a loop like that of Spark's daemon, not in another one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
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


@pytest.fixture
def run_daemon(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return what runs a daemon whose loop has that name, and returns what came of it."""

    def run(name: str, before: str = "") -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "pyspark"
        folder.mkdir()
        program = folder / "daemon.py"
        program.write_text(before + DAEMON.replace("NAME", name))
        return subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=100, check=False
        )

    return run


def test_a_process_ends_between_its_task_and_the_next(
    run_daemon: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    """Not before the task's result is out, and before the next task begins, whatever thread still runs."""
    ended = run_daemon("manager")
    assert ended.stdout.splitlines() == ["begins 0", "True", "result 0"]
    assert ended.returncode == 0
    assert "a thread" in ended.stderr


def test_a_process_ends_whose_output_has_no_reader(
    run_daemon: Callable[[str, str], subprocess.CompletedProcess[str]],
) -> None:
    """A broken pipe when the streams are flushed at the end must not keep the process, and what it left."""
    ended = run_daemon("manager", BROKEN)
    assert ended.stdout.splitlines() == ["begins 0", "True", "result 0"]
    assert ended.returncode == 0


def test_an_unknown_daemon_is_distinguished_from_sparks(
    run_daemon: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    """Where no caller would end the process, the function raises."""
    ended = run_daemon("serve")
    assert ended.stdout.splitlines() == ["begins 0", "False", "result 0", "begins 1", "False", "result 1"]
    assert ended.returncode == 3
