"""What the long commands share: how a run goes on a terminal, and the file that says what it found.

Each writes `build/survives/NAME.json`, of which `scripts/survives` makes a page. Standard library only.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "survives"
# What a run depends on. Pages may change while it runs.
WHAT_RUNS = ("ehkafka", "scripts", "tests", "pyproject.toml")
DIRTY = "-dirty"
UNKNOWN = "unknown"
PROBLEMS_MAX = 50
BAR_CHARACTERS = 40
SHOWN_EACH_S = 60.0


class LongRun:
    """One run of a long command, from its first second to its file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self._began = datetime.now(UTC)
        self._began_s = time.monotonic()
        self._shown_s = 0.0
        self._commit = commit()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._began_s

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        print(f"\r\033[K{text}" if sys.stdout.isatty() else text, flush=True)

    def show(self, done: int, total: int, what: str) -> None:
        """Draw the bar on a terminal; elsewhere print a line each minute."""
        if sys.stdout.isatty():
            bar = "█" * (BAR_CHARACTERS * done // max(total, 1))
            text = f"{bar:░<{BAR_CHARACTERS}} {done}/{total} {what}, {len(self.problems)} red"
            print(f"\r\033[K{text}", end="", flush=True)
        elif self.seconds - self._shown_s > SHOWN_EACH_S:
            self._shown_s = self.seconds
            print(f"{done} of {total} {what}, {len(self.problems)} red", flush=True)

    def broke(self, problem: str, replay: str = "") -> None:
        """Note and print what is broken, with the command that shows it again."""
        self.problems.append(" ".join(filter(None, (problem.splitlines()[0], replay and f"({replay})"))))
        self.say(f"{problem}\n  {replay}".rstrip())

    def write(
        self,
        counts: Mapping[str, int],
        columns: Sequence[str] = (),
        rows: Sequence[Sequence[object]] = (),
        note: str = "",
        **more: Any,
    ) -> Path:
        """Write the file and return its path."""
        found = {
            "name": self.name,
            "command": shlex.join([f"scripts/{self.name_of_command()}", *sys.argv[1:]]),
            # A tree that changed meanwhile is that of no commit.
            "commit": self._commit if self._commit == commit() else self._commit.removesuffix(DIRTY) + DIRTY,
            "date": self._began.isoformat(timespec="seconds"),
            "seconds": round(self.seconds, 1),
            "counts": counts,
            "columns": columns,
            "rows": rows,
            "broken": len(self.problems),
            "problems": self.problems[:PROBLEMS_MAX],
            "note": note,
            **more,
        }
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / f"{self.name}.json"
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        self.say(f"Written: {path.relative_to(ROOT)}")
        return path

    def name_of_command(self) -> str:
        """Return what was typed: a script becomes its run in another file."""
        return Path(sys.argv[0]).stem.removeprefix("_").removesuffix("_run")


def commit() -> str:
    """Return the commit of what runs; it ends with `-dirty` where something has changed since."""
    shown = _git("rev-parse", "--short=10", "HEAD")
    return f"{shown}{DIRTY if _git('status', '--porcelain', '--', *WHAT_RUNS) else ''}" if shown else UNKNOWN


def is_known(name: str) -> bool:
    """Tell whether that is a commit of this repository."""
    return bool(name) and _git("cat-file", "-t", name) == "commit"


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:  # no git
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
