"""How long calls take, in buckets: one by one, and as runs of which the last may be a slow one."""

from __future__ import annotations

import threading

import pytest

from ehkafka.workers.call_times import BOUNDS_S, CallTimes


def counted(times: CallTimes) -> dict[float, int]:
    """Return the buckets that have something, by their upper ends."""
    return {end: count for end, count in zip((*BOUNDS_S, float("inf")), times.counts, strict=True) if count}


@pytest.mark.parametrize(
    ("took_s", "end_s"), [(0.0, 10e-6), (10e-6, 10e-6), (11e-6, 100e-6), (0.3, 0.5), (1e4, float("inf"))]
)
def test_a_call_stands_below_the_end_of_its_bucket(took_s: float, end_s: float) -> None:
    """As Prometheus wants it: up to the end, the end included."""
    times = CallTimes()
    times.add(took_s)
    assert counted(times) == {end_s: 1}
    assert times.sum_s == took_s


def test_of_quick_calls_the_mean_is_counted_with_their_number() -> None:
    """One addition for a thousand calls."""
    times = CallTimes()
    times.add_run(2e-3, 1000, 2e-3)
    assert counted(times) == {10e-6: 1000}
    assert times.sum_s == pytest.approx(2e-3)


def test_the_slow_call_that_ended_a_run_keeps_its_own_time() -> None:
    """In the mean of a hundred it would vanish."""
    times = CallTimes()
    times.add_run(2.001, 100, 0.001)
    assert counted(times) == {100e-6: 99, 2.5: 1}
    assert times.sum_s == pytest.approx(2.001)


def test_a_slow_call_alone_has_all_the_time() -> None:
    """Nothing is taken off for others that there were not; a run without a call is none."""
    times = CallTimes()
    times.add_run(0.2, 1, 0.001)
    times.add_run(5.0, 0, 0.001)
    assert counted(times) == {0.25: 1}


def test_no_call_is_lost_between_threads() -> None:
    """The additions need no lock."""
    times = CallTimes()

    def work() -> None:
        for _ in range(20_000):
            times.add(1e-6)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(times.counts) == 80_000
