"""docs/project/survives.md says what the long commands found, and nothing else: it is rendered again here."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOUND = {
    "name": "simulation",
    "command": "scripts/simulate --seeds 5",
    "commit": "0123456789",
    "date": "2026-11-29T02:00:00+00:00",
    "seconds": 7_300,
    "counts": {"seeds": 50_000},
    "columns": ["way", "records"],
    "rows": [["as | drawn", 1_234_567]],
    "broken": 0,
    "problems": [],
    "note": "A note.",
}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module that renders the page."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("_survives_page")


def put(folder: Path, **changes: Any) -> None:
    """Write what a command found."""
    found = FOUND | changes
    (folder / f"{found['name']}.json").write_text(json.dumps(found))


def test_the_page_is_what_its_files_say(scripts: Any) -> None:
    """`scripts/survives` writes it; what is changed by hand is found here."""
    assert scripts.PAGE.read_text() == scripts.page()


def test_each_command_of_the_page_is_there(scripts: Any) -> None:
    """A reader may type it."""
    for kind in scripts.KINDS:
        assert (ROOT / kind.command.split(" ")[0]).exists() or kind.name == "three-brokers"


def test_what_was_found_is_shown(scripts: Any, tmp_path: Path) -> None:
    """Commit, day, time, counts and table; what was not run says so."""
    put(tmp_path)
    page = scripts.page(tmp_path)
    assert (
        "The command `scripts/simulate --seeds 5` ran at commit `0123456789` on 2026-11-29, for 2 h 2 min. "
        "Broken: nothing. A note." in page
    )
    assert "| as \\| drawn | 1\u202f234\u202f567 |" in page
    assert "| [simulation](#simulation) | 50\u202f000 seeds | nothing | `0123456789` | 2026-11-29 |" in page
    assert page.count(f"{scripts.NOT_YET} The command is `scripts/") == len(scripts.KINDS) - 1
    put(tmp_path, broken=1, problems=["seed 7: lost 1 (scripts/simulate --seed 7)"])
    page = scripts.page(tmp_path)
    assert "Broken: **1**." in page
    assert "- seed 7: lost 1 (scripts/simulate --seed 7)\n" in page


@pytest.mark.parametrize(("commit", "is_taken"), [(FOUND["commit"], True), ("0123-dirty", False)])
def test_only_what_a_commit_has_is_taken(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str, *, is_taken: bool
) -> None:
    """Anything else on demand alone, and nothing older than what is there."""
    source, target = tmp_path / "build", tmp_path / "docs"
    source.mkdir()
    monkeypatch.setattr(scripts, "is_known", lambda name: name == FOUND["commit"])
    put(source, commit=commit, picture="simulation.svg")
    (source / "simulation.svg").write_text("<svg/>")
    assert bool(scripts.take(source, target)) is not is_taken
    assert (target / "simulation.json").exists() is is_taken
    assert scripts.take(source, target, is_dirty_fine=True) == []
    assert (target / "simulation.svg").read_text() == "<svg/>"
    put(source, date="2026-11-28T02:00:00+00:00", commit=FOUND["commit"], seconds=1)
    assert scripts.take(source, target) == []
    assert f"`{commit}` on 2026-11-29" in scripts.page(target)


def test_a_run_notes_its_commit_and_what_it_broke(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that has changed since is that of no commit."""
    module = importlib.import_module("_long_run")
    commits = iter(["aaa", "aaa", "aaa", "bbb"])
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "commit", lambda: next(commits))
    monkeypatch.setattr("sys.argv", ["/x/scripts/_simulate_run.py", "--seeds", "5"])
    for shown in ("aaa", "aaa-dirty"):
        run = module.LongRun("simulation")
        run.broke("seed 7: lost", "scripts/simulate --seed 7")
        found = json.loads(run.write({"seeds": 5}).read_text())
        assert found["commit"] == shown
        assert (found["command"], found["broken"]) == ("scripts/simulate --seeds 5", 1)
        assert found["problems"] == ["seed 7: lost (scripts/simulate --seed 7)"]


def test_a_series_goes_on_and_keeps_runs_that_broke_a_promise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Runs of other options and seeds are no part of it, and those of changed files are of no commit."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    proof = importlib.import_module("_proof_run")
    monkeypatch.setattr(proof, "BUILD", tmp_path)
    monkeypatch.setattr(proof, "DOCS", tmp_path / "docs")
    asked = argparse.Namespace(brokers=3, seconds=600.0, rate=350.0, members=2, replay=None, first=1, runs=6)
    assert proof.kept(asked) == []
    run = {"seed": 1, "commit": "abc", "shape": proof.shape_of(asked), "violations": {}}

    def write(folder: Path, *runs: dict[str, Any]) -> None:
        folder.mkdir()
        (folder / proof.SERIES).write_text(json.dumps({"runs": runs}))

    others = [{"violations": {"lost": 1}}, {"shape": [3, 60.0, 350.0, 2]}, {"commit": f"abc{proof.DIRTY}"}]
    write(tmp_path / "docs", run, *({**run, "seed": 2 + at, **other} for at, other in enumerate(others)))
    write(tmp_path / "survives", run, {**run, "seed": 2, "commit": "abd"}, {**run, "seed": 7})
    found = [(one["seed"], one["commit"], bool(one["violations"])) for one in proof.kept(asked)]
    assert found == [(1, "abc", False), (2, "abc", True), (2, "abd", False)]


def test_a_simulation_goes_on_without_the_parts_that_ran(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of changed files or with a red seed runs again; the table and the counts are of all parts."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    run, parts = importlib.import_module("_simulate_run"), importlib.import_module("_simulate_parts")
    long_run = importlib.import_module("_long_run")
    monkeypatch.setattr(parts, "SEEDS_EACH", 2)
    monkeypatch.setattr(long_run, "FOLDER", tmp_path)
    monkeypatch.setattr(long_run, "ROOT", tmp_path)
    monkeypatch.setattr(parts.kept, "__defaults__", ((tmp_path,),))
    ran: list[int] = []
    simulate = run.simulate
    monkeypatch.setattr(run, "simulate", lambda seed, plan: (ran.append(seed), simulate(seed, plan=plan))[1])

    def go_on(commit: str, *more: str) -> dict[str, Any]:
        ran.clear()
        monkeypatch.setattr(run, "commit", lambda: commit)
        monkeypatch.setattr("sys.argv", ["_simulate_run.py", "--jobs", "1", "--batches", *more])
        assert run.main() == 0
        return json.loads((tmp_path / "simulation.json").read_text())  # type: ignore[no-any-return]

    found = go_on("aaa", "--seeds", "4")
    assert (ran, found["counts"]["seeds"], found["rows"][0][1]) == ([0, 1, 2, 3], 4, 4)
    found["parts"][1]["sums"]["broke a promise"] = 1
    (tmp_path / "simulation.json").write_text(json.dumps(found))
    records = found["counts"]["records"]
    found = go_on(f"bbb{parts.DIRTY}", "--seeds", "6", "--resume")
    assert (ran, found["counts"]["seeds"]) == ([2, 3, 4, 5], 6)
    assert found["counts"]["records"] > records
    assert found["note"].endswith("Seeds: 2 at aaa, 4 at bbb-dirty.")
    assert (go_on("ccc", "--seeds", "6", "--resume")["rows"], ran) == (found["rows"], [2, 3, 4, 5])
    assert "6 seeds in" in capsys.readouterr().out
