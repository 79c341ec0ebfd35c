"""Rows of the benchmark: what it costs to be watched, beside the same app with nobody looking."""

from __future__ import annotations

import dataclasses

from _bench_row import FILLED_RECORDS, LIVE, Row, Side


def observed_rows() -> list[Row]:
    """Return one row each for throughput, sleeping handlers and latency."""
    quick = Side("engine", options={"records": FILLED_RECORDS})
    sleeping = Side("engine", options={"records": 18_000, "work": 0.01, "workers": 100})
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
