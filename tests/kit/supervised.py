"""Members under a supervisor, for tests that kill and replace them: the command, its output, their histories.

Takes the place of a `MemberProcess` on a stage: it is started, stopped, and its histories are judged. The
supervisor has no terminal. One thread.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.checker.history_file import decode_event
from tests.kit.processes import LOG_TAIL_LINES
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.kit.checker.history import RecordingHistory
    from tests.kit.checker.history_event import HistoryEvent

APP = Path(__file__).with_name("supervised_app.py")
READY = re.compile(r"Member (\d+) \(process (\d+)\) is ready")


class Supervised:
    """A supervisor with so many members; `options` are those of `supervised_app`."""

    def __init__(self, stage: Any, members: int, *, name: str = "crew", **options: Any) -> None:
        self.name = name
        self.members = members
        self.log: Path = stage.directory / f"{name}.log"
        self._directory: Path = stage.directory
        self._witness: RecordingHistory = stage.witness
        self._options = {
            "name": name,
            "group": stage.group,
            "topic": stage.topic,
            "bootstrap": stage.broker.bootstrap,
            "directory": str(stage.directory),
            "handler_s": (0.0, 0.0),
            "settings": {},
            **options,
        }
        self._process: subprocess.Popen[bytes] | None = None
        stage.members.append(self)

    @property
    def histories(self) -> list[Path]:
        """The histories of all processes there were, the supervisor's empty one among them."""
        return sorted(self._directory.glob(f"{self.name}-*.jsonl"))

    def start(self, *arguments: str) -> None:
        """Start the command; returns at once."""
        command = [sys.executable, "-m", "ehkafka.cli", "run", f"{APP}:app", "--members", str(self.members)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *arguments],
                env={**os.environ, "SUPERVISED": json.dumps(self._options)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self) -> str:
        """Return what was written by now."""
        return self.log.read_text(errors="replace")

    def pids(self) -> dict[int, int]:
        """Return the process ids of the members that have become ready, by number; the latest."""
        return {int(number): int(pid) for number, pid in READY.findall(self.text())}

    def wait_until_ready(self, times: int | None = None) -> dict[int, int]:
        """Wait until members became ready so often, by default each once; return who they are."""
        wanted = self.members if times is None else times
        wait_until(lambda: len(READY.findall(self.text())) >= wanted, self.log_tail, 60.0)
        return self.pids()

    def kill(self, pid: int) -> None:
        """End a member as a crash does, and note that when it has ended."""
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{pid} is reaped")
        self._witness.process_killed(pid)

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Wait for the supervisor's end, and return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def events(self, pid: int) -> list[HistoryEvent]:
        """Return what a member's process has reported. For small histories."""
        path = self._directory / f"{self.name}-{pid}.jsonl"
        with path.open("rb") as file:
            return [decode_event(line) for line in file if line.endswith(b"\n")]

    def log_tail(self) -> str:
        """Return the end of what was written."""
        return "\n".join([f"--- {self.name}:", *self.text().splitlines()[-LOG_TAIL_LINES:]])

    def close(self) -> None:
        """Kill the supervisor if it still runs; members go with it."""
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()
            self._process.wait()
