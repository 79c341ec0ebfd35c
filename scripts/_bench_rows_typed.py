"""W17: decoded payloads and outputs, compared with bare loops."""

from __future__ import annotations

from _bench_row import OUTPUTS, Row, Side, Topic

KEYS = (10_000, 100, 1)
RECORDS, SENT_RECORDS = 1_000_000, 500_000
TYPED_TOPICS = {f"json{keys}": Topic(keys, RECORDS, json=True) for keys in KEYS}


def typed_rows() -> list[Row]:
    """Return W17's rows."""
    rows = [_decoded(*decoder) for decoder in (("orjson", "orjson to dict"), ("msgspec", "msgspec struct"))]
    rows += [_sent(keys) for keys in KEYS]
    return rows + [_sent_exactly_once(keys) for keys in KEYS[::2]]


def _decoded(decoder: str, name: str) -> Row:
    options = {"records": RECORDS, "decoder": decoder}
    return Row(
        f"W17 {name}",
        Side("engine_typed", "json10000", options),
        Side("bare_typed", "json10000", options),
        goal="≥ 0.9 of a bare loop with the same decoder",
    )


def _sent(keys: int) -> Row:
    options = {"records": SENT_RECORDS, "to": OUTPUTS}
    return Row(
        f"W17 one output for each record, {keys:,} key{'s' * (keys > 1)}",
        Side("engine_sending", f"json{keys}", options),
        Side("bare_sending", f"json{keys}", options),
        goal="≥ 0.5 of a bare consume-produce loop",
    )


def _sent_exactly_once(keys: int) -> Row:
    options = {"records": SENT_RECORDS, "to": OUTPUTS}
    topic = f"json{keys}"
    return Row(
        f"W17 one output, exactly once, {keys:,} key{'s' * (keys > 1)}",
        Side("engine_sending", topic, {**options, "exactly_once": True}),
        Side("bare_sending", topic, options),
        goal="≥ 0.35 of a bare consume-produce loop without transactions",
        other=Side("bare_transactions", topic, options),
        other_name="a bare loop with a transaction each 0.1 s",
    )
