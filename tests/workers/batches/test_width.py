"""How many batch workers get records."""

from __future__ import annotations

from ehkafka.lanes.width import TRIAL_S, Width

QUICK = (500, 5e-4, 5e-4)
WAITS = (500, 5e-3, 1e-4)
COMPUTES = (500, 5e-2, 5e-2)


def after(*calls: tuple[int, float, float], now_s: float = 1.0) -> int | None:
    """Return how many get records after such calls."""
    width = Width(1, is_measured=True)
    for call in calls:
        width.note_call(*call)
    width.note(now_s, 0.0, None, None)
    return width.consumers


def test_quick_calls_are_for_one_worker_and_others_for_all() -> None:
    """Quick is what takes little time for a record, and waits for nothing in it."""
    assert after() == 1
    assert after(QUICK) == 1
    assert after(WAITS) is None
    assert after(COMPUTES) is None


def test_one_call_that_the_system_held_up_changes_nothing() -> None:
    """Several in a row do."""
    held_up = (500, 0.2, 5e-4)
    assert after(QUICK, held_up) == 1
    assert after(QUICK, *[held_up] * 5) is None


def test_a_handler_that_becomes_quick_has_one_worker_again() -> None:
    """Not at once after a call that stood still: the next one may, too."""
    width = Width(1, is_measured=True)
    width.note_call(*QUICK)
    width.widen(5.0)
    width.note(5.0 + TRIAL_S / 2, 0.0, None, None)
    assert width.consumers is None
    width.note(5.0 + TRIAL_S, 0.0, None, None)
    assert width.consumers == 1
