"""The parts of the pipeline as processes: started with a log each, ended in the order that is wanted.

Called on one thread, by `run.py` and by tests. A part ends when its standard input does, so that none
outlives who started it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).resolve().parents[1]
STOP_S = 30.0


class Stage:
    """What runs: each part a process with a log of its own, ended by the end of its standard input."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self.parts: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Start a module of the pipeline."""
        with (self._folder / f"{name}.log").open("wb") as log:
            self.parts[name] = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                [sys.executable, "-m", f"home_pipeline.{module}", *arguments, "--while-stdin"],
                cwd=HERE,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this program alone: it ends the parts in order
            )

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

    def failed(self) -> Iterator[str]:
        """Yield, in words, which parts have ended that should run."""
        for name, part in self.parts.items():
            if part.poll() is not None:
                text = (self._folder / f"{name}.log").read_text(errors="replace").strip()
                yield f"{name} ended with code {part.returncode}:\n{text[-2000:]}"


def when_input_ends(do: Callable[[], object]) -> None:
    """Call a function when standard input ends: the parts' side of `Stage.stop`."""

    def wait() -> None:
        sys.stdin.read()
        do()

    threading.Thread(target=wait, name="standard-input", daemon=True).start()


def _end_children(session: int) -> None:
    """Kill what a part that has ended started itself and left behind: it had a process group of its own."""
    with contextlib.suppress(ProcessLookupError):  # as it should be: nothing is left
        os.killpg(session, signal.SIGKILL)
