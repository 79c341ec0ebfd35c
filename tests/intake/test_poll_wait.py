"""How long the poll thread waits, and the longest time of late between two of its turns."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.intake.poll_wait import (
    BUSY_POLL_S,
    IDLE_POLL_S,
    REST_POLL_S,
    WATCHED_POLL_S,
    WINDOW_S,
    PollGap,
    PollWait,
    Rest,
)


def waits_s(wait: PollWait, *moved: int, is_watched: bool = False) -> list[float]:
    """Return the waits of turns at which so much had moved, while records or a partition wait."""
    how = {"is_watched": is_watched, "waits": not is_watched}
    return [wait.next_s(**how, moved=one, until_due_s=None) for one in moved]


def test_work_that_waits_and_does_not_move_costs_few_turns_and_is_seen_at_once_when_it_moves() -> None:
    """Ten seconds while a partition is paused are some 200 turns, not 10 000."""
    wait = PollWait()
    still = waits_s(wait, *[1] * 200)
    assert still[0] == BUSY_POLL_S
    assert still[-1] == max(still) == IDLE_POLL_S
    assert sum(still) > 0.9 * 200 * IDLE_POLL_S
    assert waits_s(wait, 2) == [BUSY_POLL_S]


def test_records_that_wait_are_looked_at_each_5_ms_while_any_move() -> None:
    """They may wait behind long ones. Where nothing moves for long, all that can move has been moved."""
    wait = PollWait()
    assert set(waits_s(wait, *range(50), is_watched=True)) == {WATCHED_POLL_S}
    still = waits_s(wait, *[49] * 50, is_watched=True)
    assert still[:3] == [2 * WATCHED_POLL_S, 4 * WATCHED_POLL_S, 8 * WATCHED_POLL_S]
    assert still[-1] == IDLE_POLL_S


@pytest.mark.parametrize(("due_s", "wait_s"), [(0.02, 0.02), (-1.0, BUSY_POLL_S), (None, IDLE_POLL_S)])
def test_timers_are_never_late(due_s: float | None, wait_s: float) -> None:
    """A timer cuts the long wait."""
    assert PollWait().next_s(is_watched=False, waits=False, moved=1, until_due_s=due_s) == wait_s


def test_at_rest_the_wait_is_longer_until_something_moves() -> None:
    """What moves ends the rest with the turn that sees it. The logs are checked less often then."""
    wait, checks = PollWait(Rest(15.0)), list[float]()
    for now_s in (0.5 * half for half in range(21)):
        wait.rest.note(7, now_s, is_idle=now_s >= 1.0)
        checks += [now_s] * wait.rest.wants_check(now_s)
    assert checks == [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert wait.rest.wants_check(10.1, is_asked=True)
    how: Any = {"is_watched": False, "waits": False, "until_due_s": None}
    assert [wait.next_s(moved=one, **how) for one in (7, 7, 8, 8)] == [IDLE_POLL_S, REST_POLL_S] * 2
    wait.rest.note(8, 10.5, is_idle=True)
    assert wait.next_s(moved=8, **how) == IDLE_POLL_S
    assert Rest(1.0).wait_s == IDLE_POLL_S


@pytest.mark.parametrize(
    ("gaps", "open_s", "longest_s"),
    [
        ([(0.05, 1.0), (4.0, 5.0), (0.05, 6.0)], 0.01, 4.0),
        ([(4.0, 5.0), (0.05, WINDOW_S + 1)], 0.01, 4.0),
        ([(4.0, 5.0), (0.05, WINDOW_S + 1), (0.06, 2 * WINDOW_S + 2)], 0.01, 0.06),
        ([(0.05, 1.0)], 30.0, 30.0),
        ([(9.0, 9.0), (5 * WINDOW_S, 5 * WINDOW_S)], 0.0, 5 * WINDOW_S),
        ([(5 * WINDOW_S, 5 * WINDOW_S), (0.05, 6 * WINDOW_S), (0.05, 7 * WINDOW_S)], 0.0, 0.05),
    ],
    ids=["this window's", "the one before", "forgotten", "open", "its own length", "after a long one"],
)
def test_a_gap_is_shown_for_a_window_and_then_forgotten(
    gaps: list[tuple[float, float]], open_s: float, longest_s: float
) -> None:
    """One look in a window sees each gap; a loop that stands does not wait for its end to be seen."""
    gap = PollGap(0.0)
    for lasted_s, now_s in gaps:
        gap.note(lasted_s, now_s)
    assert gap.longest_s(open_s) == longest_s
