"""Runs the command as a user does: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import COMMAND, RUN_S, Running, environment
from tests.kit.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def ehkafka_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command to its end; with `is_read=False` its stdout has no reader."""

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
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Return what writes `shop.py` and runs a command on it in a terminal; it is ended with the test."""
    opened: list[Terminal] = []

    def begin(source: str, *arguments: str) -> Terminal:
        (tmp_path / "shop.py").write_text(dedent(source))
        opened.append(Terminal(tmp_path, *arguments))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of our own, with none of our variables set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("EHKAFKA_")]:
        monkeypatch.delenv(name)
    return tmp_path
