"""What the page and `ehkafka top` show alike: panels, tiles, rates, the time that is left, and words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ehkafka.cli.top import rows
from ehkafka.http.measures import Rates, number, span, until_caught_up_s
from ehkafka.http.panels import panels, tiles
from tests.kit import http_states as states


def at(at_s: float, finished: int, epoch: int = 1) -> dict[str, Any]:
    """Return a snapshot with one partition."""
    one = states.partition(3, epoch=epoch, finished_records=finished, received_records=finished)
    return states.snapshot([one]).as_dict() | {"taken_at_s": at_s}


def test_a_rate_is_a_difference_over_ten_seconds() -> None:
    """What was longer ago counts for nothing; one snapshot is no rate."""
    rates = Rates()
    assert rates.handled_per_s is None
    rates.note(at(100.0, 0))
    assert rates.handled_per_s is None
    rates.note(at(105.0, 5_000))
    assert rates.handled_per_s == 1_000
    for n in range(1, 11):
        rates.note(at(105.0 + n, 5_000 + 10 * n))
    assert rates.handled_per_s == 10
    assert rates.partition("readings/3") == 10
    assert rates.partition("readings/4") is None


def test_another_process_and_another_epoch_count_from_their_beginning() -> None:
    """No rate is negative."""
    rates = Rates()
    rates.note(at(100.0, 9_000))
    rates.note(at(102.0, 9_200))
    rates.note(at(103.0, 50))
    assert rates.handled_per_s is None
    rates.note(at(104.0, 60))
    assert rates.handled_per_s == 10
    rates.note(at(105.0, 70, epoch=2))
    assert rates.partition("readings/3") is None


@pytest.mark.parametrize(
    ("lag", "lags", "handled_per_s", "left_s"),
    [
        (900, [1_500, 1_200, 900], 100.0, 15.0),
        (900, [900, 900, 900], 100.0, math.inf),
        (900, [600, 900, 1_200], 100.0, math.inf),
        (150, [9, 9, 9], 100.0, 0.0),
        (0, [], None, 0.0),
        (900, [900], None, None),
        (900, [900, None], None, None),
        (900, [None, 1_200, 900], 100.0, 15.0),
    ],
)
def test_the_time_that_is_left_follows_the_fall(
    lag: int, lags: list[int | None], handled_per_s: float | None, left_s: float | None
) -> None:
    """A point each five seconds; it does not end where the lag does not fall; unknown is not none."""
    history = {"at_s": [5.0 * n for n in range(len(lags))], "lag_records": lags}
    assert until_caught_up_s(lag, history, handled_per_s) == left_s


def test_words_of_times_and_numbers() -> None:
    """The two units that matter; thousands apart."""
    given = (0.042, 4.21, 31.0, 252.4, 7_300.0, 200_000.0, None, math.inf)
    assert [span(one) for one in given] == [
        *("0.04 s", "4.2 s", "31 s", "4 min 12 s", "2 h 1 min", "2 d 7 h", "–", "–")
    ]
    assert [number(one) for one in (1_234_567, 3.21, 0.0, None)] == ["1,234,567", "3.2", "0", "–"]


def test_of_a_stack_the_end_is_in_sight() -> None:
    """The innermost lines, where the user's code is; no marks below them."""
    stack = "".join(f'  File "ehkafka.py", line {n}, in outer\n    call()\n    ^^^^^^\n' for n in range(20))
    shown = list(rows.stack_lines(stack + '  File "shop.py", line 20, in dead_end\n    wait()\nKeyError\n'))
    assert len(shown) == 8
    assert shown[-3:] == ['  File "shop.py", line 20, in dead_end', "    wait()", "KeyError"]
    assert not any("^" in line for line in shown)


def shown(state: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a panel."""
    return next(one["rows"] for one in panels(state, Rates()) if one["name"] == name)


def test_a_number_of_workers_that_is_found_out_is_marked() -> None:
    """Who looks at it wonders why it changes."""
    assert [one["cells"][3] for one in shown(states.healthy(), "handlers")] == ["16 (auto, 1 to 256)"]


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, "receives"),
        ({"is_paused_by_hand": True}, "paused by hand"),
        ({"unreadable": {"offset": 91_003, "reason": "damaged"}}, "cannot be read from 91003"),
        ({"paused": True}, "paused, is full"),
        ({"log_age_s": 20.0}, "no answer for 20 s"),
        ({"log_age_s": 6.0}, "receives"),
        ({"standstill_s": 65.0}, "stands still for 65 s"),
    ],
)
def test_a_partition_has_one_word_and_is_urgent_unless_it_receives(
    changed: dict[str, Any], word: str
) -> None:
    """In the order of what a person should know first."""
    state = states.healthy()
    state["snapshot"]["partitions"][2] |= changed
    row = shown(state, "partitions")[2]
    assert (row["cells"][-1], row["is_urgent"]) == (word, word != "receives")


def test_a_partition_of_a_stopped_handler_is_not_resumed_by_itself() -> None:
    """The row names what to do first."""
    state = states.healthy()
    state["snapshot"]["handlers"][0]["is_stopped"] = True
    state["snapshot"]["partitions"][1]["is_paused_by_hand"] = True
    assert shown(state, "partitions")[1]["do"] == {"resume": "Its handler is stopped: start that."}
    assert shown(state, "handlers")[0]["do"] == {"start": ""}


def test_what_members_have_noted_says_whose_it_is() -> None:
    """Errors of one kind stand apart for each."""
    state = states.noted_by_members()
    assert [one["cells"][3].partition(": ")[0] for one in shown(state, "errors")] == ["Member 1", "Member 2"]
    whose = [one["cells"][2].partition(":")[0] for one in shown(state, "events")]
    assert [one if one.startswith("Member") else "" for one in whose] == ["", "Member 2", *["Member 1"] * 2]


def test_tiles_count_what_holds_a_commit_up() -> None:
    """A call that hangs does, too; a key that waits for its next attempt does not alarm by its age."""
    found = {one["name"]: one for one in tiles(states.hanging(), Rates())}
    assert (found["waiting"]["note"], found["waiting"]["is_urgent"]) == ("1 commit held up", True)
    assert found["oldest"]["value"] == 340.0
    state = states.poisoned() | {"history": states.history(lag=5_210, falls=40)}
    assert {one["name"]: one["note"] for one in tiles(state, Rates())}[
        "lag"
    ] == "caught up in about 11 min 8 s"
