"""How many consumers take new keys: seen from what checks report of the first one."""

from __future__ import annotations

import itertools

import pytest

from ehkafka.lanes.width import QUICK_S, TRIAL_MAX_S, Width

COMPUTES, SLEEPS = 0.05, 1.2


def checked(*checks: tuple[float | None, float | None], mean_s: float = 1e-3) -> Width:
    """Return a width for two cores after checks of 5 ms, each with the time of a call and its waits."""
    width = Width(2)
    for number, (call_s, waits) in enumerate(checks):
        width.note(number * 5e-3, mean_s, call_s, waits)
    return width


def test_one_consumer_is_tried_first_and_keeps_quick_calls() -> None:
    """Nothing is known of a handler before its first calls."""
    assert checked().is_quick
    width = checked((None, None), (QUICK_S / 2, None), (QUICK_S / 2, None))
    assert width.is_quick
    assert not width.counts_waits


@pytest.mark.parametrize(("waits", "consumers"), [(COMPUTES, 2), (SLEEPS, None), (None, None)])
def test_calls_that_take_time_go_to_as_many_as_can_work(waits: float | None, consumers: int | None) -> None:
    """Computing ones to the cores, waiting ones to all; and to all where nothing counts waits."""
    assert checked((160e-6, waits)).consumers == consumers


def test_a_rest_says_nothing() -> None:
    """A consumer without a record for some of the time looks slow without being so."""
    assert checked((None, SLEEPS)).is_quick


def test_a_handler_that_was_quick_is_looked_at_once_more() -> None:
    """While calls are quick nothing counts waits, so that the check after tells what has changed."""
    quick = (QUICK_S / 2, None)
    width = checked(quick, (160e-6, None))
    assert width.is_quick
    assert width.counts_waits
    assert checked(quick, (160e-6, None), (160e-6, COMPUTES)).consumers == 2
    assert checked(quick, (160e-6, None), (1e-3, SLEEPS)).consumers is None


def test_a_handler_that_computed_and_waits_now_gets_all() -> None:
    """The other way round is seen at the next trial alone."""
    assert checked((160e-6, COMPUTES), (1e-3, SLEEPS)).consumers is None


@pytest.mark.parametrize(("mean_s", "consumers"), [(0.0, 1), (160e-6, 2)])
def test_calls_that_keep_no_consumer_busy_go_to_one_again(mean_s: float, consumers: int) -> None:
    """A quick handler that looked slow once would be given too few records for ever: those of two rest."""
    rests = itertools.repeat((None, None), 30)
    assert checked((160e-6, COMPUTES), *rests, mean_s=mean_s).consumers == consumers


def test_trials_of_short_calls_become_rare_and_of_long_ones_never_come() -> None:
    """Each trial leaves all consumers but one without new keys for a moment."""
    width, trials = Width(2), []
    for hundredth in range(3_000):
        now_s, was_wide = hundredth / 100, width.consumers is None
        width.note(now_s, 1e-4, 1e-4, SLEEPS)
        if was_wide and width.is_quick:
            trials.append(now_s)
    gaps = [round(later - sooner, 1) for sooner, later in itertools.pairwise(trials)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == TRIAL_MAX_S
    for hundredth in range(3_000, 4_000):
        width.note(hundredth / 100, 1e-2, 1e-2, SLEEPS)
    assert width.consumers is None
