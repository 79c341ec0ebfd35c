"""Measures a group of processes on one machine: so many members by `--members`, or bare consumers.

Each has its part of the partitions before any works at its full speed; what counts is the sum of what they
finish then.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from _bench_marks import BEGIN, END, mark
from _bench_memory import peak_memory_kib
from _bench_window import SAMPLE_S, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = Path(__file__).resolve().parent
# What a member does, a JSON object in its environment.
OPTIONS_NAME = "BENCH_MEMBER"
# The file that opens the members' gates.
GO = "go"
Kind = Literal["ehkafka", "bare"]
COME_TOGETHER_S_MAX = 60.0
WARM_S = 1.0
STOP_S_MAX = 30.0
# Of all records: when so many are finished, a partition may run dry.
PART_MAX = 0.85


def members(
    bootstrap: str,
    topic: str,
    *,
    topic_records: int,
    partitions: int,
    seconds: float,
    members: int,
    kind: Kind,
    work: str | float,
) -> dict[str, Any]:
    """So many members of a group read a topic, for so many seconds or until most of it is read."""
    with tempfile.TemporaryDirectory(prefix="ehkafka-bench-") as folder:
        options = {
            "bootstrap": bootstrap,
            "topic": topic,
            "group": f"bench-{uuid.uuid4()}",
            "folder": folder,
            "work": work,
        }
        with _started(_commands(kind, members), options) as processes:
            group = _Group(Path(folder), processes)
            group.wait_until_shared(members, partitions)
            (Path(folder) / GO).touch()
            time.sleep(WARM_S)
            mark(BEGIN)
            begun_s = time.monotonic()
            while time.monotonic() < begun_s + seconds and group.finished() < topic_records * PART_MAX:
                time.sleep(SAMPLE_S)
            ended_s = time.monotonic()
            mark(END)
            group.wait_until_written(ended_s)
            return {**group.figures(begun_s, ended_s), "rss_mib": group.peak_memory_kib() // 1024}


def _commands(kind: Kind, number: int) -> list[list[str]]:
    """Return how the members are started: one command for all of them, or one for each."""
    if kind == "bare":
        return [[sys.executable, str(SCRIPTS / "_bench_members_app.py")]] * number
    run = [sys.executable, "-m", "ehkafka", "run", "_bench_members_app:app", "--log-level", "error"]
    return [run if number == 1 else [*run, "--members", str(number)]]


@contextlib.contextmanager
def _started(commands: list[list[str]], options: dict[str, Any]) -> Iterator[list[subprocess.Popen[bytes]]]:
    path = os.pathsep.join(filter(None, [str(SCRIPTS), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, OPTIONS_NAME: json.dumps(options)}
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class _Group:
    """What the members of a group have written of themselves."""

    def __init__(self, folder: Path, processes: list[subprocess.Popen[bytes]]) -> None:
        self._folder, self._processes = folder, processes

    def wait_until_shared(self, members: int, partitions: int) -> None:
        """Wait until so many members have the partitions in equal parts, and each has finished something."""
        waits_until_s = time.monotonic() + COME_TOGETHER_S_MAX
        wanted = [partitions // members] * members
        while [one[2] for one in self._last() if one[1]] != wanted:
            self._must_run()
            if time.monotonic() > waits_until_s:
                raise TimeoutError(f"{members} members did not share the partitions: {self._last()}")
            time.sleep(SAMPLE_S)

    def wait_until_written(self, at_s: float) -> None:
        """Wait until each member has written where it was at that time."""
        waits_until_s = time.monotonic() + STOP_S_MAX
        while min(written_s for written_s, _, _ in self._last()) < at_s:
            self._must_run()
            if time.monotonic() > waits_until_s:
                raise TimeoutError(f"A member has not written for {STOP_S_MAX:g} s what it has finished.")
            time.sleep(SAMPLE_S)

    def finished(self) -> int:
        """Return how many records all of them have finished."""
        return sum(finished for _, finished, _ in self._last())

    def figures(self, begun_s: float, ended_s: float) -> dict[str, Any]:
        """Return what they have finished between two times."""
        windows = [_window(lines) for lines in self._lines()]
        records = round(sum(one.finished_at(ended_s) - one.finished_at(begun_s) for one in windows))
        return {
            "records": records,
            "records_per_s": records / (ended_s - begun_s),
            "window_s": ended_s - begun_s,
        }

    def _must_run(self) -> None:
        if any(process.poll() is not None for process in self._processes):
            raise RuntimeError("A member ended before it was measured; see its error above.")

    def peak_memory_kib(self) -> int:
        """Return the most memory that each member had at once, together."""
        files = self._folder.glob("*.samples")
        return sum(peak_memory_kib(Path("/proc") / file.stem / "status") for file in files)

    def _last(self) -> list[tuple[float, int, int]]:
        return [lines[-1] for lines in self._lines() if lines]

    def _lines(self) -> list[list[tuple[float, int, int]]]:
        files = sorted(self._folder.glob("*.samples"))
        # What follows the last end of a line is being written.
        return [[_sample(line) for line in file.read_text().split("\n")[:-1]] for file in files]


def _sample(line: str) -> tuple[float, int, int]:
    at_s, finished, partitions = line.split()
    return float(at_s), int(finished), int(partitions)


def _window(lines: list[tuple[float, int, int]]) -> Window:
    window = Window()
    for at_s, finished, _ in lines:
        window.add(at_s, finished)
    return window
