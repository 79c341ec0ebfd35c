"""The longest time between two turns of the poll loop, of late."""

from __future__ import annotations

from ehkafka.intake.poll_wait import WINDOW_S, PollGap


def test_a_gap_is_shown_for_a_window_and_then_forgotten() -> None:
    """Whoever looks once in a window sees each; after two it is gone."""
    gap = PollGap(0.0)
    gap.note(0.05, 1.0)
    gap.note(4.0, 5.0)
    gap.note(0.05, 6.0)
    assert gap.longest_s(0.01) == 4.0
    gap.note(0.05, WINDOW_S + 1)
    assert gap.longest_s(0.01) == 4.0
    gap.note(0.06, 2 * WINDOW_S + 2)
    assert gap.longest_s(0.01) == 0.06


def test_a_gap_that_is_still_open_is_shown() -> None:
    """A loop that stands must not wait for its end to be seen."""
    gap = PollGap(0.0)
    gap.note(0.05, 1.0)
    assert gap.longest_s(30.0) == 30.0


def test_after_a_long_stand_what_was_before_it_counts_no_more() -> None:
    """Its own length does."""
    gap = PollGap(0.0)
    gap.note(9.0, 9.0)
    gap.note(5 * WINDOW_S, 5 * WINDOW_S)
    assert gap.longest_s(0.0) == 5 * WINDOW_S
    gap.note(0.05, 6 * WINDOW_S)
    gap.note(0.05, 7 * WINDOW_S)
    assert gap.longest_s(0.0) == 0.05
