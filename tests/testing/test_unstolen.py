"""Time without what a virtual machine's host kept for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit import unstolen
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from pathlib import Path

STAT = "cpu  100 0 50 1000 10 0 5 {steal} 0 0\ncpu0 100 0 50 1000 10 0 5 999 0 0\n"


def test_what_was_stolen_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second that all of the machine's CPUs were kept waiting is no second here."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(unstolen, "_STAT", stat)
    monkeypatch.setattr("os.sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    stat.write_text(STAT.format(steal=0))
    began_s = unstolen_s()
    stat.write_text(STAT.format(steal=300))
    assert unstolen_s() - began_s == pytest.approx(-3.0)
