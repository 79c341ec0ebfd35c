"""W15: batch handlers of 500 against a loop by hand; `scripts/bench --peers` has the other libraries."""

from __future__ import annotations

from _bench_row import FILLED_RECORDS, Row, Side, Topic

TOPIC = "batches"
BATCHES_TOPICS = {TOPIC: Topic(10_000, json=True)}


def batches_rows() -> list[Row]:
    """Return W15's rows."""
    return [_row("no-op", "nothing"), _row("JSON", "json")]


def _row(name: str, work: str) -> Row:
    options = {"records": FILLED_RECORDS, "work": work}
    return Row(
        f"W15 batches of 500, {name}",
        Side("engine_batches", TOPIC, options),
        Side("bare_batches", TOPIC, options),
        goal="as other libraries do, see docs/project/peers.md",
    )
