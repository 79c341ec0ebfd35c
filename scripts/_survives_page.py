"""Renders docs/project/survives.md from survives/*.json, a file for each kind of proof. No package needed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _long_run import FOLDER, ROOT, UNKNOWN, is_known

if TYPE_CHECKING:
    from pathlib import Path

TAKEN = ROOT / "docs" / "project" / "survives"
PAGE = ROOT / "docs" / "project" / "survives.md"
NOT_YET = "**Not run yet.**"


@dataclass(frozen=True)
class Kind:
    """One kind of proof, and how it is made."""

    name: str
    title: str
    does: str
    command: str


KINDS = (
    Kind(
        "three-brokers",
        "Three brokers",
        "Three groups run on a cluster of three brokers, and each group reads the outputs of the group before"
        " it. The test kills, freezes and cuts off brokers while members join, leave and die. A separate"
        " checker, which reads only topics and commits, finds broken promises.",
        "scripts/proof",
    ),
    Kind(
        "faults",
        "Faults",
        "Each run has another seed, and causes every fault of the test in real processes under load. A"
        " checker finds broken promises in the histories of all members.",
        "scripts/faults --runs 10 --scale 10",
    ),
    Kind(
        "simulation",
        "Simulation",
        "Whole groups run with a simulated broker and a simulated clock. The test checks every step of every "
        "run, and a seed repeats its run exactly.",
        "scripts/simulate --seeds 50000 --in-turn",
    ),
    Kind(
        "soak",
        "Soak",
        "For hours, all kinds of workers handle a steady load, and the records of one key in twenty always "
        "fail. During these hours, members join, leave and are killed, and the broker restarts.",
        "scripts/faults --row 27 --minutes 120",
    ),
    Kind(
        "fuzzing",
        "Fuzzing",
        "All code that decodes data of other programs gets hostile input. The decoding code must not fail, "
        "run without end, grow beyond its limits or show a secret.",
        "scripts/fuzz --minutes 30",
    ),
    Kind(
        "mutants",
        "Mutants",
        "A mutant is the engine's code without one of its guards. For each mutant, one of the engine's tests "
        "or seeds must fail. The result shows whether the other proofs of this page can notice a fault.",
        "scripts/mutants",
    ),
)

HEAD = """\
# What it survives

Each section of this page shows the result of one command, with the commit and the date of the run. A promise
is broken if a record is lost, if a commit moves past an unfinished record, or if two records of a key swap or
overlap. A record that is repeated after a crash breaks no promise. The column *broken* also counts group
members that ended or waited without a known cause; the section of each proof names such members. The README
lists [the promises](../../README.md#what-it-promises).

"""
TAIL = """\
## What is not proven

- **One fault is [unresolved](../guides/exactly-once.md#what-is-not-promised).** With exactly once, an
  earlier run of seed 2 of the proof with three brokers (commit `d683a258a7`) sent 677 outputs twice. The
  code was then changed: a producer now takes a new epoch after a failed call. In the table of three brokers,
  the runs of seeds 2, 3, 7 and 8 have the changed code, and sent no output twice.
- **No test used a live Event Hubs namespace.** The tests imitate the documented limits of Event Hubs: see
  [limits](limits.md).
- All tests ran on one Linux machine with CPython 3.11. The tests had no network between machines and no
  failing disk.
- Only simulation and fuzzing repeat a run exactly. If `scripts/faults` runs again with an old seed, the run
  differs, because a seed decides keys, pauses and faults, but not when each thread gets a CPU.

`scripts/survives` writes this page, and a test compares the page with docs/project/survives/*.json.
"""


def page(folder: Path = TAKEN) -> str:
    """Return the whole page."""
    found = {kind.name: _read(folder / f"{kind.name}.json") for kind in KINDS}
    overview = [
        ["proof", "what was done", "broken", "commit", "date"],
        *(_line(kind, found[kind.name]) for kind in KINDS),
    ]
    parts = [_part(kind, found[kind.name]) for kind in KINDS]
    return "\n".join([HEAD + _table(overview), *parts, TAIL])


def take(source: Path = FOLDER, target: Path = TAKEN, *, is_dirty_fine: bool = False) -> list[str]:
    """Copy what was found since; return why some of it is refused."""
    refused = []
    target.mkdir(exist_ok=True)
    for kind in KINDS:
        new, old = _read(source / f"{kind.name}.json"), _read(target / f"{kind.name}.json")
        if new is None or new == old or (old is not None and new["date"] < old["date"]):
            continue
        if not is_dirty_fine and not is_known(new["commit"]):
            what = new["commit"] or UNKNOWN
            refused.append(
                f"{kind.name}: what ran is in no commit ({what}). Commit, and run it again; or --dirty."
            )
            continue
        # The numbers last: they say that all of it is taken.
        for name in filter(None, (new.get("picture"), f"{kind.name}.json")):
            shutil.copyfile(source / name, target / name)
    return refused


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None  # type: ignore[no-any-return]


def _line(kind: Kind, found: dict[str, Any] | None) -> list[object]:
    link = f"[{kind.title.lower()}](#{kind.title.lower().replace(' ', '-')})"
    if found is None:
        return [link, "not run yet", "–", "–", "–"]
    done = ", ".join(f"{_number(value)} {name.replace('_', ' ')}" for name, value in found["counts"].items())
    return [link, done, _broken(found), f"`{found['commit']}`", found["date"][:10]]


def _part(kind: Kind, found: dict[str, Any] | None) -> str:
    lines = [f"## {kind.title}", "", kind.does, ""]
    if found is None:
        return "\n".join([*lines, f"{NOT_YET} The command is `{kind.command}`.", ""])
    lines += [
        f"The command `{found['command']}` ran at commit `{found['commit']}` on {found['date'][:10]}, for "
        f"{_time(found['seconds'])}. Broken: {_broken(found)}. {found['note']}".rstrip(),
        "",
    ]
    if found["columns"]:
        lines.append(_table([found["columns"], *found["rows"]]))
    if problems := found.get("problems"):
        lines += ["What was broken:", "", *(f"- {_plain(problem)}" for problem in problems), ""]
    if picture := found.get("picture"):
        lines += [f"![{kind.title}, as it went](survives/{picture})", ""]
    return "\n".join(lines)


def _broken(found: dict[str, Any]) -> str:
    return "nothing" if not found["broken"] else f"**{_number(found['broken'])}**"


def _table(rows: list[list[object]]) -> str:
    head, *body = [[_plain(_number(cell)) for cell in row] for row in rows]
    # Numbers are aligned by their last digit.
    is_number = [all(_is_number(row[at]) for row in rows[1:]) for at in range(len(head))]
    rule = ["--:" if right else "---" for right in is_number]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body)) + "\n"


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) or str(cell).lstrip("+-").replace(".", "").isdigit() or cell == "–"


def _number(value: object) -> str:
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)


def _plain(text: str) -> str:
    """Return text that neither ends a cell nor begins a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
