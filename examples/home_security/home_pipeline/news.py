"""What happens while the pipeline runs, shown in a terminal: lines that a person wants, no log.

Looks at the page's answers alone. Called by `show` on the main thread.
"""

from __future__ import annotations

import time
from typing import Any

from home_pipeline import check
from home_pipeline.keeper import say

CHECK_EVERY_S = 2.0
REPORT_EVERY_S = 30.0


class News:
    """Tells each thing once, and every half minute how it goes."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._began_s = time.monotonic()
        self._next_check_s = 0.0
        self._next_report_s = 0.0
        self._reported_kinds: set[str] = set()

    def check(self) -> None:
        """Tell what is new since the last look; does nothing when that was just now."""
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return
        self._next_check_s = now_s + CHECK_EVERY_S
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
