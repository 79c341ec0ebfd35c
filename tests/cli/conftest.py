"""Runs the command as a user does: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# -P as the installed script: the current directory is on sys.path only if the command puts it there.
COMMAND = [sys.executable, "-P", "-m", "ehkafka.cli"]
RUN_S = 60.0


class Running:
    """A command that runs on, with what it has written so far."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]) -> None:
        self._files = [(folder / name).open("w+") for name in ("stdout", "stderr")]
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            stdout=self._files[0],
            stderr=self._files[1],
            env=environment(),
        )

    @property
    def stdout(self) -> str:
        """What stdout has by now."""
        return self._text(0)

    @property
    def stderr(self) -> str:
        """What stderr has by now."""
        return self._text(1)

    def wait_for(self, text: str, times: int = 1, timeout_s: float = 30.0) -> None:
        """Wait until the streams have the text so often; fail when the command ends before."""
        self.wait_for_match(re.escape(text), times, timeout_s)

    def wait_for_match(self, pattern: str, times: int = 1, timeout_s: float = 30.0) -> None:
        """Wait until the streams match so often; fail when the command ends before."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            # Asked first: what was written before the end is there by then.
            ended = self.process.poll() is not None
            if len(re.findall(pattern, self.stdout + self.stderr)) >= times:
                return
            if ended or time.monotonic() > deadline_s:
                pytest.fail(f"{pattern} did not come: {self.stdout}{self.stderr}")
            time.sleep(0.02)

    def end(self, timeout_s: float = 20.0) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for file in self._files:
            file.close()

    def _text(self, number: int) -> str:
        return Path(self._files[number].name).read_text()


def environment() -> dict[str, str]:
    """Return an environment in which help texts have one width and no colours."""
    return {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture
def ehkafka_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command to its end; with `is_read=False` nobody reads its stdout."""

    def run(*arguments: str, is_read: bool = True) -> subprocess.CompletedProcess[str]:
        reader, stdout = (-1, subprocess.PIPE) if is_read else os.pipe()
        if not is_read:
            os.close(reader)
        try:
            return subprocess.run(
                [*COMMAND, *arguments],
                cwd=tmp_path,
                env=environment(),
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                timeout=RUN_S,
                check=False,
            )
        finally:
            if not is_read:
                os.close(stdout)

    return run


@pytest.fixture
def start_ehkafka(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that starts the command; it is ended with the test."""
    started: list[Running] = []

    def start(*arguments: str) -> Running:
        started.append(Running(tmp_path, arguments))
        return started[-1]

    yield start
    for running in started:
        running.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of our own, with none of our variables set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("EHKAFKA_")]:
        monkeypatch.delenv(name)
    return tmp_path
