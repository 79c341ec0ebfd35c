"""Rows of the benchmark: what it costs to be watched, compared with the same app unwatched."""

from __future__ import annotations

import dataclasses

from _bench_row import LIVE, Row, Side, Topic

OBSERVED = "observed"
OBSERVED_TOPICS = {OBSERVED: Topic(10_000, 5_000_000)}
# Not counted: while these are handled the watchers start, which takes as long as a short run.
WARM_RECORDS, WARM_SLEEPING_RECORDS = 2_000_000, 20_000


def observed_rows() -> list[Row]:
    """Return one row each for throughput, sleeping handlers and latency."""
    quick = Side("engine", OBSERVED, {"records": 5_000_000, "after": WARM_RECORDS})
    sleeping = Side(
        "engine",
        options={"records": 80_000, "after": WARM_SLEEPING_RECORDS, "work": 0.01, "workers": 100},
    )
    live = Side("engine_latency", LIVE, {"seconds": 4.0}, live_per_s=10_000)
    return [
        Row("W0 no-op, watched", _watched(quick), quick, goal="≥ 0.95 of the same unwatched"),
        Row(
            "W2 10 ms, 100 threads, watched",
            _watched(sleeping),
            sleeping,
            goal="≥ 0.99 of the same unwatched",
        ),
        Row(
            "W9 latency p99 (ms) at 10 000/s, watched",
            _watched(live),
            live,
            figure="p99_ms",
            goal="≤ the same unwatched + 5 ms",
            windows=3,
        ),
    ]


def _watched(side: Side) -> Side:
    return dataclasses.replace(side, options={**side.options, "observed": True})
