"""Backlog, parked budget and byte credit count all that a record holds: value, key and headers."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from tests.kit.waiting import must_stay, wait_until

LARGE = 50_000
RECORDS = 100
LIMIT = 2_000_000
LIMITS = {"backlog_bytes_max": LIMIT, "parked_bytes_max": LIMIT}


def _produce(lab: Any, where: str) -> None:
    records = [(b"%03d" % n + b"k" * (LARGE if where == "key" else 0), b"v") for n in range(RECORDS)]
    headers = [("large", b"h" * LARGE)] if where == "headers" else None
    lab.broker.produce("t", records, partition=0, headers=headers)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("where", ["key", "headers"])
def test_the_backlog_is_bounded_by_all_bytes(lab: Any, recorder: Any, where: str, *, raw: bool) -> None:
    """One record blocks; those behind it fill the backlog, and the broker keeps the rest."""
    _produce(lab, where)
    gate = recorder.block()
    app = lab.start(recorder, raw=raw, **LIMITS)
    wait_until(lambda: _bytes(app)[0] > LIMIT // 2)
    must_stay(lambda: app.snapshot().received_records <= LIMIT // LARGE + 2)
    assert _bytes(app)[0] >= (app.snapshot().received_records - 1) * LARGE
    gate.set()
    wait_until(lambda: lab.committed() == RECORDS)
    assert _bytes(app) == (0, 0)


@pytest.mark.parametrize("where", ["key", "headers"])
def test_the_parked_budget_is_bounded_by_all_bytes(lab: Any, where: str) -> None:
    """Records that wait behind failed ones are counted with their keys and headers."""
    _produce(lab, where)

    def fail(_record: Any) -> None:
        raise ValueError("no")

    app = lab.start(fail, on_failure=ehkafka.Hold(), **LIMITS)
    wait_until(lambda: _bytes(app)[1] > LIMIT // 2)
    must_stay(lambda: app.snapshot().received_records <= 2 * LIMIT // LARGE + 2)


def _bytes(app: Any) -> tuple[int, int]:
    partitions = app.snapshot().partitions
    return sum(one.backlog_bytes for one in partitions), sum(one.parked_bytes for one in partitions)
