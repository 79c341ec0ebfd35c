"""What happens while the pipeline runs, shown in a terminal: lines that a person wants, no log.

Looks at the page's answers and at the engines' logs alone. Called by `show` on the main thread.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from home_pipeline import check

if TYPE_CHECKING:
    from pathlib import Path

CHECK_EVERY_S = 2.0
REPORT_EVERY_S = 30.0
SHARE = re.compile(r"this member has (\d+) partitions")
"""What the local engine logs when the group shares the partitions out anew."""


def say(words: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", flush=True)


class News:
    """Tells each thing once, and every half minute how it goes."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._began_s = time.monotonic()
        self._next_check_s = 0.0
        self._next_report_s = 0.0
        self._reported_kinds: set[str] = set()
        self._shares: tuple[str, ...] = ()
        self._reported_shares: tuple[str, ...] = ()

    def check(self) -> None:
        """Tell what is new since the last look; does nothing when that was just now."""
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return
        self._next_check_s = now_s + CHECK_EVERY_S
        self._check_members()
        try:
            answer = check.ask(self._address, "/api/overview")
        except (OSError, ValueError):
            return  # not up yet, or busy; the stage tells when it has ended
        if answer["readings"]:
            self._check_page(answer, now_s)

    def _check_page(self, answer: dict[str, Any], now_s: float) -> None:
        if not self._next_report_s:
            say(f"the first readings are on the page, {now_s - self._began_s:.0f} s after the start")
            self._next_report_s = now_s + REPORT_EVERY_S
        kinds = {f"{kind['kind']} ({kind['unit']})" for kind in answer["kinds"] if kind["new"]}
        for kind in sorted(kinds - self._reported_kinds):
            say(f"a new kind of sensor is on the page: {kind}")
        self._reported_kinds |= kinds
        if now_s > self._next_report_s:
            self._next_report_s = now_s + REPORT_EVERY_S
            age_s = answer["now_s"] - answer["as_of_s"]
            say(
                f"{answer['readings']:,} readings of {answer['homes']:,} homes in {answer['blobs']:,} blobs,"
                f" the latest {age_s:.0f} s old"
            )

    def _check_members(self) -> None:
        """Tell how many partitions each member has, when two looks in a row find the same."""
        shares = []
        for log in sorted(self._folder.glob("engine*.log")):
            found = SHARE.findall(log.read_text(errors="replace"))
            if found:
                shares.append(found[-1])
        before, self._shares = self._shares, tuple(shares)
        if len(shares) > 1 and self._shares == before != self._reported_shares:
            self._reported_shares = self._shares
            say(f"the members have {' and '.join(shares)} partitions")
