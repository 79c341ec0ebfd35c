"""The page on dead letters can be tried as it stands: its program runs, and its command shows its letters."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.pages import ROOT, blocks_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = ROOT / "docs" / "guides" / "dead-letters.md"
PROGRAM = next(block.text for block in blocks_of(PAGE) if block.text.startswith("# shop.py\n"))
SHOWN = next(block.text for block in blocks_of(PAGE) if "dlq list" in block.text)
LETTERS_S = 30.0


@pytest.fixture
def broker_of_the_program(tmp_path: Path) -> Iterator[str]:
    """Start `python shop.py` and return the address that it prints; Ctrl-C must end it well."""
    (tmp_path / "shop.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "shop.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout is not None
        yield program.stdout.readline().strip().removeprefix("export EHKAFKA_BOOTSTRAP=")
        program.send_signal(signal.SIGINT)
        assert program.wait(20.0) == 0


def test_the_letters_are_listed_as_the_page_shows_them(broker_of_the_program: str) -> None:
    """Times and places aside: two letters, one of an error in the program's own line, one that followed."""
    command = [sys.executable, "-m", "ehkafka.cli", "dlq", "list", "orders.dead"]
    command += ["--endpoint", broker_of_the_program]

    def listed_now() -> str:
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return listed if listed.startswith("2 letters") else ""

    listed = wait_until(listed_now, timeout_s=LETTERS_S)
    shown = SHOWN.partition("dlq list orders.dead\n")[2]
    assert without_times(shown) == without_times(listed)


def without_times(listed: str) -> list[list[str]]:
    """Return the words of the lines; ages and folders are of a run."""
    text = re.sub(r"\d+ s\b", "0 s", re.sub(r"\(\S*/shop\.py", "(shop.py", listed))
    return [line.split() for line in text.splitlines()]
