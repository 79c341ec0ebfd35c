"""Pages for newcomers: the programs of the tutorial print what it shows, each page has what it must have."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.kit.page_programs import by_key, files_of, save, shown_output
from tests.kit.pages import ROOT
from tests.kit.running import ended

if TYPE_CHECKING:
    from pathlib import Path

START = ROOT / "docs" / "start"
TUTORIAL = START / "tutorial.md"
WORDS_MAX = 1000
SHOWN = {command: text for command, text in shown_output(TUTORIAL).items() if not command.startswith("pip")}
FAILS = "python failing.py hold"


def run(command: str, folder: Path) -> tuple[int, str, str]:
    """Run a command of the page where its files are; return its exit code and its two streams."""
    save(TUTORIAL, folder)
    _, *words = command.split()
    done = ended(sys.executable, *words, cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", SHOWN)
def test_a_program_prints_what_the_page_shows(command: str, tmp_path: Path) -> None:
    """In the order of each home; the order of two homes depends on the machine."""
    code, printed, log = run(command, tmp_path)
    assert by_key(printed) == by_key(SHOWN[command]), log
    if command == FAILS:
        assert "UnfinishedError" in log.splitlines()[-1]
        assert "key home-2" in log.splitlines()[-1]
        assert code == 1
    else:
        assert code == 0, log


def test_each_program_is_run() -> None:
    """The page shows the output of each, except that of the test."""
    run_files = {command.split()[1] for command in SHOWN}
    assert run_files == {name for name in files_of(TUTORIAL) if not name.startswith("test_")}
    assert FAILS in SHOWN


def test_the_test_of_the_last_step_passes(tmp_path: Path) -> None:
    """By the command that the page shows."""
    command = "python -m pytest test_alerts.py"
    assert f"$ {command}\n" in TUTORIAL.read_text()
    code, printed, _ = run(f"{command} -p no:cacheprovider", tmp_path)
    assert code == 0, printed
    assert "1 passed" in printed


def test_the_page_of_the_installation_lists_each_extra() -> None:
    """And no other."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `(\w+)` \|", (START / "install.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(extras)
    left_out = extras.keys() - {"all", *re.findall(r"\w+", extras["all"][0].partition("[")[2])}
    assert left_out == {"arrow", "spark"}


def test_each_page_is_short() -> None:
    """A newcomer reads it at once, programs included."""
    words = {page.name: len(page.read_text().split()) for page in START.glob("*.md")}
    assert {name: count for name, count in words.items() if count > WORDS_MAX} == {}


@pytest.mark.parametrize("page", sorted(START.glob("from-*.md")), ids=lambda page: page.stem)
def test_a_guide_has_both_programs_and_says_what_we_do_not_do(page: Path) -> None:
    """Its programs before and after, the words of both, what changes, and how the position moves."""
    text, files = page.read_text(), list(files_of(page))
    assert text.index("Before:") < text.index("## What changes in behaviour")
    assert files[-1].startswith(("after", "calls"))
    for heading in ("Words and options", "What changes in behaviour", "Move the position"):
        assert f"\n## {heading}\n" in text, heading
    cannot = r"^.* do(?:es)? not have these features of .*:$"
    assert re.search(cannot, text, re.MULTILINE)
