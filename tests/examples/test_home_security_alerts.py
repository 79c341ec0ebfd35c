"""Who judges the home-security pipeline's alerts; `run.py` compares them with the ledger."""

from __future__ import annotations

import pytest
from home_pipeline.alert_check import judge


@pytest.mark.parametrize(
    ("offsets", "found", "wrong"),
    [
        ("1 5 7", 3, ""),
        ("1 5 7 1 5 7 9", 4, ""),
        ("1 5 5 7", 3, ""),
        ("1 7 5", 3, "late"),
        ("1 5 1 7", 3, "late"),
        ("1 5 7 1 7", 3, "others of its home did not"),
    ],
)
def test_alerts_may_come_again_as_whole_stretches_alone(offsets: str, found: int, wrong: str) -> None:
    """A repeat goes back to an earlier one and on from there; nothing is passed over."""
    other = [("home-000002", f"readings[3]@{offset}") for offset in (2, 4)]
    alerts = [("home-000001", f"readings[3]@{offset}") for offset in offsets.split()]
    count, said = judge([other[0], *alerts, other[1]])
    assert count == found + 2
    assert [wrong in one for one in said] == ([True] if wrong else [])
