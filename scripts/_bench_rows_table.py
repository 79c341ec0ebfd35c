"""W18: a topic as a Parquet file, compared with the loops over confluent-kafka that do the same."""

from __future__ import annotations

from _bench_row import Row, Side, Topic

TOPIC, RECORDS = "archive", 10_000_000
TABLE_TOPICS = {TOPIC: Topic(10_000, RECORDS, json=True)}
LOOPS = (("consume", "`consume()`", "≥ 1.5 by CPU seconds"), ("poll", "`poll()`", "≥ 2.2 by CPU seconds"))


def table_rows() -> list[Row]:
    """Return W18's rows."""
    options = {"records": RECORDS}
    return [
        Row(
            f"W18 to Parquet, compared with a loop over {name}",
            Side("arrow_to_parquet", TOPIC, options),
            Side("loop_to_parquet", TOPIC, {**options, "by": by}),
            goal=goal,
            warm_up=False,
            shared=True,
        )
        for by, name, goal in LOOPS
    ]
