"""What a seed draws can be run, and covers what must be tried; a table says what runs have found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proof.draws import EXACTLY_ONCE, Draw
from tests.proof.options import BY_HAND, MEMBER_FAULTS, NODE_FAULTS, OF_THREE, PROTOCOLS, WORKERS, parse
from tests.proof.series import untried
from tests.proof.table import COLUMNS, row_of, summary_of, text_of

RESULT = {
    "seed": 7,
    "mode": "exactly-once",
    "kind": "threads,tasks",
    "static": True,
    "protocol": "classic",
    "faults": {"kill": 3, "roll": 0},
    "repeated_exactly_once": 2,
    "records": 900,
    "outputs": 850,
    "repeated": 4,
    "took_s": 12,
    "members": {"fenced": 2, "rebalance": 9},
    "doubted": 5,
    "settled_s": 31.5,
    "violations": {
        "lost": 1,
        "lost_end_to_end": 2,
        "order_end_to_end": 1,
        "back": 1,
        "stuck": 1,
        "repeated": 2,
    },
}


@pytest.mark.parametrize("brokers", [1, 3])
def test_each_draw_is_a_run_that_can_be_asked_for(brokers: int) -> None:
    """Else it would show after hours. A seed always draws the same."""
    for seed in range(50):
        draw = Draw(seed, brokers, 600.0, 350.0, 2)
        assert draw.arguments() == draw.arguments()
        asked = parse(None, draw.arguments())
        assert asked.seed == seed


def test_twenty_seeds_try_all_there_is() -> None:
    """Every fault, kind of member, mode and protocol."""
    drawn = [parse(None, Draw(seed, 3, 600.0, 350.0, 2).arguments()) for seed in range(1, 21)]
    assert {fault for asked in drawn for fault in asked.faults} == {*MEMBER_FAULTS, *NODE_FAULTS, *OF_THREE}
    assert {kind for asked in drawn for kind in asked.kind} == {*WORKERS, *BY_HAND}
    assert {asked.protocol for asked in drawn} == {*PROTOCOLS}
    assert {len(asked.mode) for asked in drawn} == {1, 2}
    assert sum(EXACTLY_ONCE in asked.mode for asked in drawn) >= 10
    assert not any(EXACTLY_ONCE in asked.mode for asked in drawn if "two-away" in asked.faults)
    assert {asked.static for asked in drawn} == {asked.cooperative for asked in drawn} == {True, False}


def test_a_row_has_each_violation_once() -> None:
    """What has no column of its own stands in `other`; what is excused is no violation."""
    row = dict(zip(COLUMNS, row_of(RESULT), strict=True))
    assert (row["lost"], row["early commits"], row["other"]) == (1, 1, "stuck:1")
    assert (row["end to end"], row["order"]) == ("lost:2 order:1", 0)
    assert (row["repeated exactly once"], row["repeated at least once"]) == (2, 4)
    assert (row["excused"], row["all committed after s"]) == ("fenced:2 doubted:5", 31.5)
    assert (row["members"], row["faults"]) == ("threads,tasks, static", 3)
    assert text_of([RESULT]).splitlines()[1].split()[:2] == ["7", "exactly-once"]


def test_a_summary_counts_all_that_is_broken() -> None:
    """A run that ended without a result is broken, too. What a level has found counts there alone."""
    nothing = {"seed": 8, "violations": {"no_result": 1}, "faults": {}, "records": 0}
    summary = summary_of(
        [nothing, {**RESULT, "commit": "abc", "why": "a known one"}],
        command="scripts/proof",
        commit="c",
        date="d",
    )
    assert summary["broken"] == 7
    assert [row[0] for row in summary["rows"]] == [7, 8]
    assert summary["counts"]["records"] == 900
    assert "kill 3" in summary["note"]
    assert "Run of seed 8 at no commit (no_result:1): the cause is not known yet." in summary["note"]
    assert "Run of seed 7 at abc (lost:1" in summary["note"]
    assert summary["note"].endswith("): a known one.")


TRIED = {
    "violations": {},
    "shown": [],
    "letters": 4,
    "checks": 9,
    "commits": 50,
    "ranges_seen": 7,
    "records_by_level": [5, 5, 5],
    "faults": {"kill": 1, "leaders": 1},
}


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        ({}, []),
        ({"letters": 0}, ["dead letters"]),
        ({"ranges_seen": 0}, ["ranges"]),
        ({"records_by_level": [5, 5, 0]}, ["records of level 2"]),
        ({"faults": {"kill": 1}}, ["faults of nodes"]),
        ({"faults": {}, "checks": 0}, ["commits that were read", "faults of members", "faults of nodes"]),
    ],
)
def test_a_run_that_has_not_tried_what_was_drawn_is_red(found: dict[str, Any], lacks: list[str]) -> None:
    """One that only looks green."""
    arguments = ["--brokers", "3", "--levels", "3", "--faults", "kill,stop,leaders"]
    result = untried({**TRIED, **found}, arguments)
    assert result["shown"] == [f"nothing_tried: no {what}" for what in lacks]
    assert result["violations"] == ({"nothing_tried": len(lacks)} if lacks else {})


def test_members_by_hand_commit_no_ranges() -> None:
    """So a run of them lacks nothing without."""
    arguments = ["--kind", "plain", "--faults", "kill"]
    assert not untried({**TRIED, "ranges_seen": 0}, arguments)["violations"]
