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


@pytest.mark.parametrize(
    ("run", "buckets"),
    [
        ((2e-3, 1000, 2e-3), {10e-6: 1000}),
        ((2.001, 100, 0.001), {100e-6: 99, 2.5: 1}),
        ((0.2, 1, 0.001), {0.25: 1}),
        ((5.0, 0, 0.001), {}),
    ],
    ids=["quick", "the last one is slow", "a slow one alone", "none"],
)
def test_of_a_run_the_mean_is_counted_and_its_slow_last_call_apart(
    run: tuple[float, int, float], buckets: dict[float, int]
) -> None:
    """One addition for a thousand calls; in the mean of a hundred a slow one would vanish."""
    times = CallTimes()
    times.add_run(*run)
    assert counted(times) == buckets
    assert times.sum_s == pytest.approx(run[0] if run[1] else 0.0)


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
