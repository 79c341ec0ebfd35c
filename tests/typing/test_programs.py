"""Type checkers read users' programs right: each line that is marked `# error` is one, and no other.

mypy (strict) and pyright (as editors have it) each run once, over the programs next to this file and all
examples: their start takes most of the time. pyright takes the Python of the pages as well.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.pages import FILE_NAME, PAGES, blocks_of

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
# Needs Azure's exporter, which brings no types and is not installed here.
UNCHECKED = ROOT / "examples/observe/azure_monitor.py"
EXAMPLES = sorted({*ROOT.glob("examples/**/*.py")} - {UNCHECKED})
# Examples whose modules import each other by name.
FOLDERS = [ROOT / f"examples/{name}" for name in ("home_security", "demo", "testing")]
# What pages show of Azure's packages that are not installed here.
NOT_INSTALLED = re.compile(r'Import "azure\.(?:keyvault|monitor)\.')
MARKED = re.compile(r"#.*\berror$")


@pytest.mark.slow
@pytest.mark.timeout(300)  # a few seconds each, on a machine that has nothing else to do
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_each_marked_line_is_an_error_and_no_other(checker: str, tmp_path: Path) -> None:
    """Missed errors and unexpected ones are in one list, with the checker's message."""
    pytest.importorskip({"pyright": "basedpyright"}.get(checker, checker))
    run, pages = (run_mypy, []) if checker == "mypy" else (run_pyright, written_pages(tmp_path / "pages"))
    found = run([*PROGRAMS, *EXAMPLES, *pages], tmp_path)
    wanted = {(path, line) for path in PROGRAMS for line in marked_lines(path)}
    unlike = sorted(found.keys() ^ wanted)
    assert [f"{path.name}:{line}: {found.get((path, line), 'passed')}" for path, line in unlike] == []


def test_the_wrong_programs_are_marked_and_the_right_ones_are_not() -> None:
    """Else nothing would be proved by them."""
    assert {path.name.partition("_")[0] for path in PROGRAMS} == {"right", "wrong"}
    assert all(bool(marked_lines(path)) == path.name.startswith("wrong") for path in PROGRAMS)
    assert len(EXAMPLES) > 20
    assert UNCHECKED.exists()


def marked_lines(path: Path) -> list[int]:
    """Return the numbers of the lines that are to be errors."""
    return [number for number, line in enumerate(path.read_text().splitlines(), 1) if MARKED.search(line)]


def written_pages(folder: Path) -> list[Path]:
    """Write the Python of each page into a file, or into those that its blocks name; return all of them.

    A block stands at its line of the page. They have no types of their own for a strict checker.
    """
    files: dict[Path, list[str]] = {}
    for page in PAGES:
        place = folder / page.relative_to(ROOT).with_suffix("")
        for block in blocks_of(page):
            if block.language != "python" or block.not_run is not None:
                continue
            named = FILE_NAME.match(block.text)
            lines = files.setdefault(place / (named["name"] if named else "page.py"), [])
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    for path, lines in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, ""]))
    return sorted(files)


def run_mypy(files: list[Path], folder: Path) -> dict[tuple[Path, int], str]:
    """Return what mypy finds, by file and line."""
    cache = folder / "cache"
    # What the linters have just found out of the package and its libraries, if they have ended. A copy, for
    # their options differ.
    if (known := os.environ.get("LINTERS_MYPY_CACHE")) and Path(known, "linted").exists():
        shutil.copytree(known, cache)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--output=json"]
    command += ["--explicit-package-bases", f"--cache-dir={cache}", *map(str, files)]
    lines = _printed(command, {"MYPYPATH": os.pathsep.join(map(str, (ROOT, *FOLDERS)))}).splitlines()
    found = [json.loads(line) for line in lines]
    return {(ROOT / one["file"], one["line"]): one["message"] for one in found if one["severity"] == "error"}


def run_pyright(files: list[Path], folder: Path) -> dict[tuple[Path, int], str]:
    """Return what pyright finds, by file and line, in the mode that is its default."""
    project = folder / "pyrightconfig.json"
    roots = [
        *({"root": str(one), "extraPaths": [str(ROOT)]} for one in FOLDERS),
        # A page shows several handlers of one name.
        {"root": str(folder / "pages"), "extraPaths": [str(ROOT)], "reportRedeclaration": False},
        {"root": str(ROOT)},
    ]
    names = list(map(str, files))
    settings = {"typeCheckingMode": "standard", "include": names, "executionEnvironments": roots}
    project.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(project)]
    report = json.loads(_printed([*command, "--pythonpath", sys.executable], {}))
    assert report["summary"]["filesAnalyzed"] == len(files)
    return {
        (Path(one["file"]), one["range"]["start"]["line"] + 1): one["message"]
        for one in report["generalDiagnostics"]
        if one["severity"] == "error" and not NOT_INSTALLED.match(one["message"])
    }


def _printed(command: list[str], variables: Mapping[str, str]) -> str:
    environment = os.environ | variables
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT, env=environment
    )
    assert ran.returncode in {0, 1}, ran.stderr or ran.stdout
    return ran.stdout
