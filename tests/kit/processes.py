"""Members of a group as processes of their own, for tests that kill, freeze and restart members.

Responsible for the processes alone: start, signals, exit code, their output and the histories they wrote. A
program gets the path of its history by `--history PATH`, and it must leave when its standard input
ends, so that it never outlives the test. Called by tests on one thread.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EhkafkaError
from tests.kit.checker import history_event as events
from tests.kit.checker.history_file import decode_event
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.records import TopicPartition
    from tests.kit.checker.history import RecordingHistory

LOG_TAIL_LINES = 40
APP = Path(__file__).with_name("supervised_app.py")
# Where a supervised member finds its command line.
ARGUMENTS = "EHKAFKA_TEST_MEMBER"
READY = re.compile(r"Member (\d+) \(process (\d+)\) is ready")


class MemberProcess:
    """A Python program that runs one member; may be started again after it has ended.

    `witness` is the history of the test that kills it: a death by SIGKILL is noted there. Each start writes a
    history of its own.
    """

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        *,
        name: str,
        directory: Path,
        witness: RecordingHistory,
    ) -> None:
        self.name = name
        self._histories: list[Path] = []
        # Of earlier starts, in order.
        self.earlier_exit_codes: list[int] = []
        self.log = directory / f"{name}.log"
        self._program = program
        self._arguments = [*arguments]
        self._directory = directory
        self._witness = witness
        self._process: subprocess.Popen[bytes] | None = None
        self._tail: _HistoryTail | None = None

    def start(self) -> None:
        """Start the program; returns at once."""
        assert not self.is_running, f"{self.name} runs already"
        self._bury()
        history = self._directory / f"{self.name}-{len(self._histories)}.jsonl"
        history.touch(mode=0o600)
        self._histories.append(history)
        self._tail = _HistoryTail(history)
        self._launch([str(self._program), "--history", str(history), *self._arguments])

    def _launch(self, arguments: Sequence[str], **how: Any) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                **how,
            )

    @property
    def histories(self) -> list[Path]:
        """The histories of all starts, in order."""
        return self._histories

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives; a suspended one does."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the process ended, negative for a signal; None while it runs."""
        return self._started().poll()

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM); returns at once."""
        self._started().send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash does (SIGKILL), reap it and note that in the witness's history."""
        process = self._started()
        process.kill()
        self._reaped(process, timeout_s=10.0)
        self._witness.process_killed(process.pid)

    def suspend(self) -> None:
        """Freeze all its threads (SIGSTOP): its connections stay open."""
        self._started().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `suspend`."""
        self._started().send_signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end and return the exit code. Raises `EhkafkaError` when it takes longer."""
        return self._reaped(self._started(), timeout_s)

    def close(self) -> None:
        """Kill it if it still runs, and let go of it. It cannot be started again."""
        if self.is_running:
            self._started().kill()
        self._bury()

    def assigned(self) -> dict[TopicPartition, str]:
        """Return the partitions it has now, each with the position its epoch began at."""
        assert self._tail is not None, f"{self.name} was never started"
        return self._tail.assigned() if self.is_running else {}

    def events(self) -> list[events.HistoryEvent]:
        """Return what it reported in its last start so far. For small histories."""
        return events_in(self.histories[-1])

    def count(self, *kinds: type) -> int:
        """Return how many events of these kinds it reported in its last start."""
        return sum(isinstance(event, kinds) for event in self.events())

    def log_tail(self) -> str:
        """Return the end of what it printed."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self.name}:", *lines[-LOG_TAIL_LINES:]])

    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    def _bury(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            self.earlier_exit_codes.append(process.wait())

    def _reaped(self, process: subprocess.Popen[bytes], timeout_s: float) -> int:
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise EhkafkaError(f"{self.name} did not end within {timeout_s:g} s\n{self.log_tail()}") from None


class Supervised(MemberProcess):
    """Members under a supervisor: the command, its output, the histories of all processes there were.

    `arguments` are those of `tests.kit.member`. The supervisor has no terminal.
    """

    def __init__(
        self, stage: Any, members: int, *arguments: str, name: str = "crew", **consumer: Any
    ) -> None:
        where: dict[str, Any] = {"name": name, "directory": stage.directory, "witness": stage.witness}
        super().__init__(APP, [*stage.arguments(consumer), *arguments], **where)
        self.members = members
        stage.members.append(self)

    @property
    def histories(self) -> list[Path]:
        """The histories of all processes, the supervisor's empty one among them."""
        return sorted(self._directory.glob(f"{self.name}-*.jsonl"))

    def start(self, *more: str) -> None:
        """Start the command with more of its arguments; returns at once."""
        arguments = ["--history", str(self._directory / self.name), *self._arguments]
        run = ["-m", "ehkafka.cli", "run", f"{self._program}:app", "--members", str(self.members), *more]
        self._launch(run, env={**os.environ, ARGUMENTS: json.dumps(arguments)}, start_new_session=True)

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

    def kill_member(self, pid: int) -> None:
        """End a member as a crash does, and note that when it has ended."""
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{pid} is reaped")
        self._witness.process_killed(pid)

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        self._started().send_signal(number)

    def events_of(self, pid: int) -> list[events.HistoryEvent]:
        """Return what a member's process has reported. For small histories."""
        return events_in(self._directory / f"{self.name}-{pid}.jsonl")


def events_in(path: Path) -> list[events.HistoryEvent]:
    """Return the events of a history that is still written. For small ones."""
    with path.open("rb") as file:
        return [decode_event(line) for line in file if line.endswith(b"\n")]


class _HistoryTail:
    """Reads on where it stopped, and keeps what is assigned. A line still being written waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._assigned: dict[TopicPartition, str] = {}

    def assigned(self) -> dict[TopicPartition, str]:
        with self._path.open("rb") as file:
            file.seek(self._position)
            while (line := file.readline()).endswith(b"\n"):
                self._position += len(line)
                # The bulk of a history are records; decoding those would cost more than the run.
                if b'"event":"Assigned"' in line or b'"event":"Revoked"' in line:
                    self._take(decode_event(line))
        return dict(self._assigned)

    def _take(self, event: events.HistoryEvent) -> None:
        if isinstance(event, events.Assigned):
            self._assigned[event.partition] = event.position
        elif isinstance(event, events.Revoked):
            self._assigned.pop(event.partition, None)
