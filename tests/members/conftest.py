"""Programs with members: written to a folder, started as a user does, and looked at through `/proc`."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import Running
from tests.kit.stage import stage, stage_on
from tests.kit.supervisor_port import TOKEN, Port
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["stage", "stage_on"]

# A member starts in one to three seconds where the machine is busy, and an embedded group forms in one.
LIMIT_S = 60.0
SHOP = """
    import logging, os, pathlib, sys, threading, time
    import ehkafka

    endpoint = ehkafka.Endpoint.embedded({"orders": 4})
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", stop_s=5)

    @app.on_start
    def begin():
        print("STARTED", os.getpid())

    @app.handler("orders", workers=4)
    def handle(record):
        print(f"HANDLED {record.where} {os.getpid()}\\n", end="")  # in one piece: other threads print, too

    @app.on_stop
    def end():
        print("ENDED", os.getpid())
"""
MAIN = """
    if __name__ == "__main__":
        logging.basicConfig(level=logging.INFO)
        app.run(members=2)
"""
READY = r"Member (\d) \(process (\d+)\) is ready"


class Program(Running):
    """A supervisor and its members."""

    def members(self) -> dict[int, int]:
        """Return the process ids of the members by number, the latest ones."""
        return {int(number): int(pid) for number, pid in re.findall(READY, self.stderr)}

    def wait_until_ready(self, times: int = 2) -> dict[int, int]:
        """Wait until members became ready so often; return who they are."""
        self.wait_for_match(READY, times, LIMIT_S)
        return self.members()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor alone."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Leave nothing of it."""
        members = self.members().values()
        super().close()
        for pid in members:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def is_there(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(*pids: int) -> None:
    """Wait until none of these processes is there any more."""
    wait_until(lambda: not any(map(is_there, pids)), f"{pids} have ended", LIMIT_S)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a program of several parts."""

    def written(*parts: str, name: str = "shop.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(dedent, parts)))
        return path

    return written


@pytest.fixture
def start(tmp_path: Path, write: Callable[..., Path]) -> Iterator[Callable[..., Program]]:
    """Return what starts a program: `python shop.py` by default, else the command with arguments.

    Each program has a session, and so no terminal, of its own.
    """
    started: list[Program] = []

    def begin(*arguments: str, parts: tuple[str, ...] = (SHOP, MAIN)) -> Program:
        write(*parts)
        command = None if arguments else [sys.executable, "shop.py"]
        started.append(Program(tmp_path, arguments, command=command, in_session=True))
        return started[-1]

    yield begin
    for program in started:
        program.close()


@pytest.fixture
def serve(
    start: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[Program, Port]]:
    """Return what runs a supervisor of two members that serves a port; it returns both."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)

    def begin(program: str) -> tuple[Program, Port]:
        running = start(parts=(program,))
        running.wait_until_ready(2)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", running.stderr)
        assert found is not None, running.stderr
        return running, Port(int(found[1]))

    return begin
