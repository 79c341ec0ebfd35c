"""The page `docs/project/peers.md`: what is between its markers is written from a run, the rest by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from peers import raw
from peers.behind import behind, comparisons, kinds_of, short_table
from peers.catalogue import all_sides
from peers.environments import ROOT
from peers.pictures import picture
from peers.plan import rows
from peers.tables import by_table, cannot_table, modes_table, table

if TYPE_CHECKING:
    from pathlib import Path

    from peers.catalogue import Side
    from peers.plan import Row
    from peers.raw import Run

PAGE = ROOT / "docs" / "project" / "peers.md"
PICTURES = ROOT / "docs" / "project" / "pictures"
NOT_YET = "Not measured yet: `scripts/bench --peers`, then `scripts/bench --peers --take`."
_MARKED = re.compile(r"(<!-- peers: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class PageError(Exception):
    """The page has a marker that nothing is written for, or lacks one."""


def write_page(run: Run | None) -> None:
    """Write what is between the markers, and the pictures."""
    sides, all_rows = all_sides(), rows(quick=False)
    for old in PICTURES.glob("peers-*.svg"):
        old.unlink()
    PICTURES.mkdir(exist_ok=True)  # git keeps no empty folder
    for name, drawn in ({} if run is None else pictures(run, all_rows, sides)).items():
        (PICTURES / name).write_text(drawn, encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), run, sides, all_rows), encoding="utf-8")


def filled(page: str, run: Run | None, sides: list[Side], all_rows: list[Row]) -> str:
    """Return a page with all that is between its markers written anew."""
    written = parts(run, sides, all_rows)
    marked = {name for _, name, _ in _MARKED.findall(page)}
    if marked != set(written):
        raise PageError(f"The page's markers are {sorted(marked)}, and should be {sorted(written)}.")
    return _MARKED.sub(lambda found: f"{found[1]}{written[found[2]]}\n{found[3]}", page)


def parts(run: Run | None, sides: list[Side], all_rows: list[Row]) -> dict[str, str]:
    """Return what is written between the markers, by their names."""
    found = {"modes": modes_table(sides), "cannot": cannot_table(sides, all_rows)}
    if run is None:
        return found | dict.fromkeys(("facts", "short", "behind", "figures"), NOT_YET)
    compared = comparisons(run, all_rows, sides)
    return found | {
        "facts": _facts(run),
        "short": short_table(compared),
        "behind": behind(compared),
        "figures": "\n\n".join(_section(run, name, each, sides) for name, each in by_table(all_rows).items()),
    }


def pictures(run: Run, all_rows: list[Row], sides: list[Side]) -> dict[str, str]:
    """Return the pictures by their files' names."""
    return {_file(name): picture(run, each, kinds_of(sides)) for name, each in by_table(all_rows).items()}


def _section(run: Run, name: str, each: list[Row], sides: list[Side]) -> str:
    shown = f"![{name}](pictures/{_file(name)})"
    return f"### {name}\n\n{shown}\n\n{table(run, each, sides)}"


def _file(name: str) -> str:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return f"peers-{words[0]}-{words[-1]}.svg"


def _facts(run: Run) -> str:
    facts = run.facts
    left_out = "".join(
        f"\n\n{title} is left out: {sentence.splitlines()[0]}"
        for title, sentence in facts["left_out"].items()
    )
    return (
        f"Measured on {facts['date']} at commit `{facts['commit']}`: {facts['machine']}, Python "
        f"{facts['python']}, {facts['broker']}; {facts['rounds']} rounds, windows of {facts['seconds']:g} s "
        f"([raw data](peers/raw.json)).{left_out}"
    )


def build_page(folder: Path = raw.BUILD) -> Path:
    """Write the last run's tables and pictures into the build folder, for a look; return the page."""
    run, sides, all_rows = raw.read_run(folder), all_sides(), rows(quick=False)
    (folder / "pictures").mkdir(exist_ok=True)
    known = {one["row"] for one in run.measurements}
    measured = [row for row in all_rows if row.name in known]
    for name, drawn in pictures(run, measured, sides).items():
        (folder / "pictures" / name).write_text(drawn, encoding="utf-8")
    written = parts(run, sides, measured)
    page = folder / "peers.md"
    page.write_text(
        "\n\n".join(written[name] for name in ("facts", "short", "behind", "figures")) + "\n",
        encoding="utf-8",
    )
    return page
