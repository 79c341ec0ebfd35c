"""How long the poll thread waits: short while something moves, long while it only waits for others."""

from __future__ import annotations

from ehkafka.intake.poll_wait import BUSY_POLL_S, IDLE_POLL_S, WATCHED_POLL_S, PollWait


def test_work_that_waits_and_does_not_move_costs_few_turns() -> None:
    """Ten seconds beside a paused partition are some 200 turns, not 10 000."""
    wait, turns, now_s = PollWait(), 0, 0.0
    while now_s < 10.0:
        now_s += wait.next_s(is_watched=False, waits=True, moved=7, until_due_s=None)
        turns += 1
    assert turns < 1.1 * 10.0 / IDLE_POLL_S


def test_what_moves_again_is_looked_at_at_once_from_then_on() -> None:
    """The turn that sees it is at most an idle wait late; the next one follows in a millisecond."""
    wait = PollWait()
    waits = [wait.next_s(is_watched=False, waits=True, moved=1, until_due_s=None) for _ in range(20)]
    assert waits[0] == BUSY_POLL_S
    assert waits[-1] == max(waits) == IDLE_POLL_S
    assert wait.next_s(is_watched=False, waits=True, moved=2, until_due_s=None) == BUSY_POLL_S


def test_records_that_wait_are_looked_at_each_5_ms_while_any_move() -> None:
    """They may wait behind long ones. Where nothing moves for long, all that can move has been moved."""
    wait = PollWait()
    moving = {wait.next_s(is_watched=True, waits=False, moved=n, until_due_s=None) for n in range(50)}
    assert moving == {WATCHED_POLL_S}
    still = [wait.next_s(is_watched=True, waits=False, moved=49, until_due_s=None) for _ in range(50)]
    assert still[:3] == [2 * WATCHED_POLL_S, 4 * WATCHED_POLL_S, 8 * WATCHED_POLL_S]
    assert still[-1] == IDLE_POLL_S


def test_timers_are_never_late() -> None:
    """A timer cuts the long wait."""
    assert PollWait().next_s(is_watched=False, waits=False, moved=1, until_due_s=0.02) == 0.02
    assert PollWait().next_s(is_watched=False, waits=False, moved=1, until_due_s=-1.0) == BUSY_POLL_S
    assert PollWait().next_s(is_watched=False, waits=False, moved=1, until_due_s=None) == IDLE_POLL_S
