"""The parts of the pipeline as processes: started with a log each, ended in the order that is wanted.

Called on one thread, by `run.py` and by tests. A part ends when its standard input does, so that none
outlives who started it, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ehkafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).resolve().parents[1]
STOP_S = 30.0
# What the embedded broker needs: it lets a group form only after the session time-out.
QUICK: dict[str, Any] = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 300}
STATUS = "status.json"
"""In the stage's folder: how the engine is, for the page."""
TOKEN = "HOME_SECURITY_TOKEN"  # noqa: S105 - the variable's name
"""The variable whose value the page's server wants of those who change something."""
WISHES = "wishes.json"
"""In the same place: what people ask for on the page, with the time."""


class Stage:
    """What runs: each part a process with a log of its own, ended by the end of its standard input."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._commands: dict[str, tuple[str, ...]] = {}
        self.parts: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Start a module of the pipeline; its log begins anew."""
        self._commands[name] = (module, *arguments)
        with self.log(name).open("wb") as log:
            self.parts[name] = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                [sys.executable, "-m", f"home_pipeline.{module}", *arguments, "--while-stdin"],
                cwd=HERE,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this program alone: it ends the parts in order
            )

    def restart(self, name: str) -> None:
        """Start a part again that has ended."""
        self.stop(name)
        self.start(name, *self._commands[name])

    def kill(self, name: str) -> None:
        """End a part at once, and all that it has started."""
        _end_children(self.parts[name].pid)

    def tell(self, name: str, line: str) -> None:
        """Write a line to a part's standard input. Raises `OSError` when it has ended."""
        pipe = self.parts[name].stdin
        assert pipe is not None
        pipe.write(f"{line}\n".encode())
        pipe.flush()

    def log(self, name: str) -> Path:
        """Return where a part's output goes."""
        return self._folder / f"{name}.log"

    def stop(self, name: str) -> int:
        """End a part and return its exit code; kill it when it does not end by itself."""
        part = self.parts.pop(name)
        assert part.stdin is not None
        part.stdin.close()
        try:
            return part.wait(STOP_S)
        except subprocess.TimeoutExpired:
            part.kill()
            return part.wait()
        finally:
            _end_children(part.pid)

    def stop_all(self) -> None:
        """End what still runs, the last started first."""
        for name in [*self.parts][::-1]:
            self.stop(name)

    def failed(self) -> Iterator[tuple[str, str]]:
        """Yield which parts have ended that should run: the name, and in words why."""
        for name, part in self.parts.items():
            if part.poll() is not None:
                text = self.log(name).read_text(errors="replace").strip()
                yield name, f"{name} ended with code {part.returncode}:\n{text[-2000:]}"


def when_input_ends(do: Callable[[], object], on_line: Callable[[str], object] = str) -> None:
    """Call a function when standard input ends: the parts' side of `Stage.stop`; and one for each line."""

    def wait() -> None:
        for line in sys.stdin:
            on_line(line.strip())
        do()

    threading.Thread(target=wait, name="standard-input", daemon=True).start()


def app_endpoint() -> ehkafka.Endpoint:
    """Begin an app's process: log, end with standard input (`--while-stdin`); return where the broker is."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    if "--while-stdin" in sys.argv:
        when_input_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    quick = QUICK if os.environ.get("HOME_SECURITY_QUICK") == "1" else {}
    return ehkafka.Endpoint.kafka(os.environ["HOME_SECURITY_BOOTSTRAP"], quick)


def replace_file(path: Path, content: object) -> None:
    """Write a file of JSON; who reads it sees the old one or the new one."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    new.replace(path)


def _end_children(session: int) -> None:
    """Kill what a part has started itself and left behind, and the part: they are a process group."""
    with contextlib.suppress(ProcessLookupError):  # as it should be: nothing is left
        os.killpg(session, signal.SIGKILL)
