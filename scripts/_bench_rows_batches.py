"""W15: batch handlers of 500 beside a loop by hand, and beside FastStream where its Python is given."""

from __future__ import annotations

from _bench_row import FILLED_RECORDS, Row, Side, Topic

TOPIC = "batches"
BATCHES_TOPICS = {TOPIC: Topic(10_000, json=True)}


def batches_rows(*, peers: bool) -> list[Row]:
    """Return W15's rows; `peers` says whether there is a Python that has FastStream."""
    return [_row("no-op", "nothing", peers=peers), _row("JSON", "json", peers=peers)]


def _row(name: str, work: str, *, peers: bool) -> Row:
    options = {"records": FILLED_RECORDS, "work": work}
    return Row(
        f"W15 batches of 500, {name}",
        Side("engine_batches", TOPIC, options),
        Side("bare_batches", TOPIC, options),
        goal="≥ 1.0 × FastStream's batch subscriber",
        beside=Side("peer_faststream_batches", TOPIC, options, by_peers=True) if peers else None,
        beside_name="FastStream" if peers else "",
    )
