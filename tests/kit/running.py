"""The command, or another program, as a user runs it: a process of its own, and what it wrote so far."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

# -P as the installed script: the current directory is on sys.path only if the command puts it there.
COMMAND = [sys.executable, "-P", "-m", "ehkafka.cli"]
RUN_S = 60.0


class Running:
    """A command that runs on, with what it has written so far."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        *,
        command: list[str] | None = None,
        in_session: bool = False,
        in_one: bool = False,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """Start it; `command` is another program than ours, `in_session` takes its terminal away.

        Its streams are files in the folder, both one file if they are `in_one`. It runs in the folder as
        well, unless `cwd` is another one.
        """
        self._files = [(folder / name).open("w+") for name in ("stdout", "stderr")]
        self.process = subprocess.Popen(
            [*(COMMAND if command is None else command), *arguments],
            cwd=cwd or folder,
            stdout=self._files[0],
            stderr=subprocess.STDOUT if in_one else self._files[1],
            env=environment() if env is None else env,
            start_new_session=in_session,
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


def ended(
    *command: str, cwd: Path, env: dict[str, str] | None = None, timeout_s: float = RUN_S
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its exit code and what it wrote."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment() if env is None else env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def environment() -> dict[str, str]:
    """Return an environment in which help texts have one width and no colours."""
    return {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
