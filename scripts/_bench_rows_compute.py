"""W14: handlers that compute, with any number of workers, compared with a plain loop and queues by hand."""

from __future__ import annotations

from _bench_row import Row, Side

WORKERS = (1, 8, 64, 100, 256)
# What is computed, its name for `_bench_handlers`, the goal, and for how many seconds: 256 workers of 5 ms go
# through the interpreter's lock in waves of more than a second.
COMPUTING = [
    ("16 µs of Python", "compute 16 µs", "compared with the plain loop", 4.0),
    ("160 µs of Python", "compute 160 µs", "≥ 0.75 of the plain loop", 4.0),
    ("5 ms of Python", "compute 5 ms", "≥ 0.75 of the plain loop", 10.0),
]
MIXED = ("0.5 ms of Python, 0.5 ms of sleep", "mixed", "compared with the best number of queues by hand")
# Of queues by hand for the mixed one: too few sleep too much, too many fight for the interpreter's lock.
QUEUES = [2, 4, 8, 16, 64, 256]
MIXED_S, QUEUES_S = 4.0, 2.0
# What `--quick` measures of it.
QUICK = ("160 µs of Python", "compute 160 µs", "≥ 0.75 of the plain loop", 2.0, 100)


# Handlers for which the number of workers is sought, how it is called in W14's rows, and how long that takes.
SOUGHT = [
    ("sleep of 1 ms", 0.001),
    ("sleep of 10 ms", 0.01),
    ("160 µs of Python", "compute 160 µs"),
    ("5 ms of Python", "compute 5 ms"),
    (MIXED[0], "mixed"),
]
FIXED = [1, 4, 16, 64, 128, 256]
SETTLE_S = 12.0


def compute_rows(*, quick: bool) -> list[Row]:
    """Return W14's rows."""
    if quick:
        return [_computing(*QUICK)]
    rows = [_computing(*work, workers) for work in COMPUTING for workers in WORKERS]
    return rows + [_mixed(workers) for workers in WORKERS] + [_sought(*work) for work in SOUGHT]


def _computing(name: str, work: str, goal: str, seconds: float, workers: int) -> Row:
    options = {"work": work, "seconds": seconds}
    return Row(
        _title(name, workers),
        Side("engine_steady", options={**options, "workers": workers}),
        Side("plain_loop", options=options),
        goal=goal,
        warm_up=False,
        other=Side("hand_queues", options={**options, "counts": [workers]}),
        other_name="queues by hand",
        remarks=(("least_slice", "least slice ÷ mean {:.2f}"),),
    )


def _mixed(workers: int) -> Row:
    name, work, goal = MIXED
    options = {"work": work, "seconds": MIXED_S}
    return Row(
        _title(name, workers),
        Side("engine_steady", options={**options, "workers": workers}),
        # The same for all numbers of workers: `shared`.
        Side("hand_queues", options={"work": work, "seconds": QUEUES_S, "counts": QUEUES}),
        goal=goal,
        warm_up=False,
        shared=True,
        other=Side("plain_loop", options=options),
        other_name="plain loop",
        remarks=(("least_slice", "least slice ÷ mean {:.2f}"), ("queues", "best with {} queues")),
    )


def _title(name: str, workers: int) -> str:
    return f"W14 {name}, {workers} worker{'s' * (workers > 1)}"


def _sought(name: str, work: str | float) -> Row:
    options = {"work": work, "seconds": MIXED_S}
    return Row(
        f'W14 {name}, workers="auto", compared with the best fixed number',
        Side("engine_steady", options={**options, "workers": "auto", "settle_s": SETTLE_S}),
        Side("engine_best", options={"work": work, "seconds": QUEUES_S, "counts": FIXED}),
        goal="≥ 0.95 of the best fixed number",
        warm_up=False,
        remarks=(("found", "{:.0f} workers"),),
    )
