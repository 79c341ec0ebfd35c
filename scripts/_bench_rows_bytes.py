"""W13: how many bytes arrive for each byte of the log that is handled, under steady back-pressure."""

from __future__ import annotations

from _bench_row import FILLED_RECORDS, LETTERS, Row, Side, Topic

# As much as bare threads handle of 1 ms while they warm up and are measured, and what they read ahead.
RECORDS = 2_000_000
PARTITIONS = (16, 100, 500)
HOT = "hot16"
BYTES_TOPICS = {f"bytes{number}": Topic(10_000, RECORDS, partitions=number) for number in PARTITIONS}
FEW_KEYS = (1, 5, 10)
BYTES_TOPICS |= {f"bytes16keys{keys}": Topic(keys, 100_000, partitions=16) for keys in FEW_KEYS}
BYTES_TOPICS[HOT] = Topic(10_000, FILLED_RECORDS, partitions=16, only_partition=3)
# Handler time in seconds, and for how long it is watched. The backlog is filled up in waves, of which a slow
# handler has to see several.
WORK = ((0.001, 17.0), (0.01, 25.0), (0.05, 45.0))
REMARKS = (("records_per_s", "{:,.0f}/s"), ("kept_ratio", "{:.2f} of what it holds as well"))


def bytes_rows() -> list[Row]:
    """Return W13's rows."""
    rows = [_row(number, *work) for number in PARTITIONS for work in WORK]
    stalled = _row(16, *WORK[0], what=", one partition stalled", goal="≤ 1.3", stalled=True)
    hot = _row(16, *WORK[0], topic=HOT, what=", one partition has all records", goal="≤ 2")
    return [*rows, stalled, hot, _hot_and_quick(), *_many_stalled(), _next_to_an_idle_handler(), *_few_keys()]


def _row(
    partitions: int,
    work_s: float,
    seconds: float,
    *,
    topic: str = "",
    what: str = "",
    goal: str = "≤ 1.15",
    stalled: bool = False,
) -> Row:
    options = {"work": work_s, "seconds": seconds}
    topic = topic or f"bytes{partitions}"
    return Row(
        f"W13 bytes received ÷ handled, {work_s * 1e3:g} ms, {partitions} partitions{what}",
        Side("engine_bytes", topic, {**options, "stalled": stalled}, counts_bytes=True),
        Side("bare_bytes", topic, options, counts_bytes=True),
        figure="bytes_ratio",
        goal=goal,
        warm_up=False,
        remarks=REMARKS,
    )


def _many_stalled() -> list[Row]:
    """Partitions that are stuck from their first record on; workers of their own wait for them."""
    options = {"work": 0.01, "seconds": 10.0}
    return [
        Row(
            f"W13 records/s of the others, 10 ms, {stalled} of 100 partitions stuck from the start",
            Side("engine_bytes", "bytes100", {**options, "stalled_partitions": stalled}, counts_bytes=True),
            Side("engine_bytes", "bytes100", options, counts_bytes=True),
            goal="≥ 0.9",
            warm_up=False,
            remarks=(("bytes_ratio", "{:.2f} bytes received ÷ handled"),),
        )
        for stalled in (25, 50, 75)
    ]


def _next_to_an_idle_handler() -> Row:
    options = {"work": 0.005, "seconds": 17.0}
    return Row(
        "W13 bytes received ÷ handled, 5 ms, 16 partitions, next to a handler without records",
        Side("engine_bytes", "bytes16", {**options, "idle_topic": LETTERS}, counts_bytes=True),
        Side("engine_bytes", "bytes16", options, counts_bytes=True),
        figure="bytes_ratio",
        goal="as without it",
        warm_up=False,
        remarks=REMARKS,
    )


def _few_keys() -> list[Row]:
    options = {"work": 0.0025, "seconds": 17.0}
    return [
        Row(
            f"W13 bytes received ÷ handled, 2.5 ms, 16 partitions, {keys} keys",
            Side("engine_bytes", f"bytes16keys{keys}", options, counts_bytes=True),
            Side("bare_bytes", f"bytes16keys{keys}", {**options, "workers": keys}, counts_bytes=True),
            figure="bytes_ratio",
            goal="≤ 1.3",
            warm_up=False,
            remarks=REMARKS,
        )
        for keys in FEW_KEYS
    ]


def _hot_and_quick() -> Row:
    options = {"records": FILLED_RECORDS}
    return Row(
        "W13 bytes received ÷ handled, no-op, 16 partitions, one has all records",
        Side("engine_bytes_whole", HOT, options, counts_bytes=True),
        Side("bare_bytes_whole", HOT, options, counts_bytes=True),
        figure="bytes_ratio",
        goal="as fast as before (≥ 0.97)",
        warm_up=False,
        remarks=REMARKS,
    )
