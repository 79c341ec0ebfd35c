"""W15: batch handlers of 500 records beside a loop by hand and, where it is installed, FastStream's."""

from __future__ import annotations

import importlib.util

from _bench_row import FILLED_RECORDS, Row, Side, Topic

TOPIC = "batches"
BATCHES_TOPICS = {TOPIC: Topic(10_000, json=True)}
# FastStream is no dependency of ours: `pip install "faststream[confluent]"` brings the peer.
HAS_FASTSTREAM = importlib.util.find_spec("faststream") is not None


def batches_rows() -> list[Row]:
    """Return W15's rows."""
    return [_row("no-op", "nothing"), _row("JSON", "json")]


def _row(name: str, work: str) -> Row:
    options = {"records": FILLED_RECORDS, "work": work}
    peer = Side("faststream_batches", TOPIC, options)
    return Row(
        f"W15 batches of 500, {name}",
        Side("engine_batches", TOPIC, options),
        Side("bare_batches", TOPIC, options),
        goal="≥ 1.0 × FastStream's batch subscriber",
        express=True,
        beside=peer if HAS_FASTSTREAM else None,
        beside_name="FastStream" if HAS_FASTSTREAM else "",
        remarks=(("in_chunks", "{:.0%} in chunks"),),
    )
