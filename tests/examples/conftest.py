"""Runs an example as its docstring says, in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.running import Running, ended
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
# -P as the installed script: the current directory is on sys.path only if the command puts it there.
EHKAFKA = ("-P", "-m", "ehkafka.cli")
RUN_S = 30.0


class RunningExample(Running):
    """An app under `ehkafka run`, with its log so far."""

    def __init__(
        self, path: str, folder: Path, environment: dict[str, str], command: tuple[str, ...]
    ) -> None:
        folder.mkdir()
        program = [sys.executable, *command]
        env = clean_environment(environment)
        super().__init__(folder, ("run", path), command=program, in_one=True, cwd=ROOT, env=env)

    @property
    def log(self) -> str:
        """What it has written by now."""
        return self.stdout

    def wait_until(self, is_enough: Callable[[str], object]) -> None:
        """Wait until the log is enough."""

        def check() -> None:
            assert self.process.poll() is None, self.log[-2000:]
            time.sleep(0.05)

        wait_until(lambda: is_enough(self.log), lambda: self.log[-2000:], RUN_S, meanwhile=check)

    def stop(self) -> str:
        """Stop it by a signal and return the whole log; it must have ended well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.end() == 0, self.log[-2000:]
        return self.log


def clean_environment(added: dict[str, str]) -> dict[str, str]:
    """Return this process's environment, without what would choose another endpoint or identity."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EHKAFKA_", "AZURE_"))}
    return kept | added


@pytest.fixture
def start_example(tmp_path: Path) -> Iterator[Callable[..., RunningExample]]:
    """Return a function `(path, command=…, **environment)` that starts an app; it is ended with the test."""
    started: list[RunningExample] = []

    def start(path: str, command: tuple[str, ...] = EHKAFKA, **environment: str) -> RunningExample:
        started.append(RunningExample(path, tmp_path / f"example-{len(started)}", environment, command))
        return started[-1]

    yield start
    for example in started:
        example.close()


@pytest.fixture
def run_script() -> Callable[..., str]:
    """Return a function `(path, **environment)` that runs a script to its good end and returns its output."""

    def run(path: str, **environment: str) -> str:
        done = ended(sys.executable, path, cwd=ROOT, env=clean_environment(environment))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def town(browser_page: Any, tmp_path: Path) -> Iterator[Any]:
    """Return a `Town` of the home-security pages whose homes have not spoken yet."""
    from tests.examples.home_pages import Town  # noqa: PLC0415 - needs the extra [web]

    opened = Town(browser_page, tmp_path)
    yield opened
    opened.close()
