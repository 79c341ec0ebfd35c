"""The benchmark's table: which measurements make a row, which topics they need, and what the goal is."""

from __future__ import annotations

import dataclasses
import math
import re

import confluent_kafka
from _bench_row import FILLED_RECORDS, LETTERS, LIVE, Row, Side, Topic
from _bench_rows_batches import BATCHES_TOPICS, batches_rows
from _bench_rows_bytes import BYTES_TOPICS, bytes_rows
from _bench_rows_compute import compute_rows
from _bench_rows_members import MEMBERS_TOPICS, members_rows
from _bench_rows_observed import OBSERVED_TOPICS, observed_rows
from _bench_rows_spark import SPARK_TOPICS, spark_rows
from _bench_rows_table import TABLE_TOPICS, table_rows
from _bench_rows_typed import TYPED_TOPICS, typed_rows

from tests.kit.faults.kafka_proxy import CommitPolicy


def table(*, quick: bool, minutes: float, size: float) -> tuple[list[Row], dict[str, Topic]]:
    """Return all rows and the topics to fill; `size` scales records and seconds, to try the benchmark."""
    topics = {f"keys{keys}": Topic(keys) for keys in W8_KEYS}
    topics |= {f"even{keys}": Topic(keys, 10_000, even=True) for keys in W1_KEYS}
    topics |= {"four": Topic(100, W3_RECORDS, partitions=4, even=True)}
    topics |= {"poison": Topic(W5_KEYS, math.ceil(_w5_records(minutes) / W5_COUNTED))}
    topics |= BATCHES_TOPICS | BYTES_TOPICS | MEMBERS_TOPICS | OBSERVED_TOPICS | SPARK_TOPICS
    topics |= TABLE_TOPICS | TYPED_TOPICS
    found = [*_w0(shared=quick), *(_w2(*work) for work in (W2_WORK[1:3] if quick else W2_WORK))]
    found += compute_rows(quick=quick)
    if not quick:
        found += [_w1(keys) for keys in W1_KEYS]
        found += [_w2_by_hand(work_s) for work_s, _ in W2_WORK[:2]]
        found += [_w2_tasks(*work) for work in W2_TASKS]
        found += [*_w3(), _w4a(), *_w4b(), *(_w5(share, minutes) for share in W5_POISON), _w6(), _w7()]
        found += [_w8(keys) for keys in W8_KEYS]
        found += [*spark_rows(), *bytes_rows(), *batches_rows(), *members_rows(), *observed_rows()]
        found += [*typed_rows(), *table_rows()]
    found.append(_w9(windows=1 if quick else LATENCY_WINDOWS))
    if quick:  # the first row warms up for all
        found = [dataclasses.replace(row, warm_up=number == 0) for number, row in enumerate(found)]
    rows = [_sized(row, size) for row in sorted(found, key=lambda row: int(row.work.split()[0][1:]))]
    return rows, {name: _sized_topic(topic, size) for name, topic in topics.items()}


def named(rows: list[Row], texts: list[str] | None) -> list[Row]:
    """Return the rows that start with one of the texts, or all; `W1` is that workload, not W11 as well."""
    starts = tuple(f"{text} " if re.fullmatch(r"W\d+", text) else text for text in texts or [""])
    return [row for row in rows if row.work.startswith(starts)]


def _w0(*, shared: bool) -> list[Row]:
    options = {"records": FILLED_RECORDS}
    plain, bare = Side("engine", options=options), Side("bare_loop", options=options)
    raw = Side("engine", options={**options, "raw": True})
    rows = [
        Row("W0 no-op, `Record`", plain, bare, goal="≥ 0.65 of the bare loop"),
        Row("W0 no-op, raw `Message`", raw, bare, goal="≥ 0.80 of the bare loop"),
        Row(
            "W0 drop-in `consume()`",
            Side("bare_loop", options={**options, "drop_in": True}),
            bare,
            goal="≥ 0.90 of the bare loop",
        ),
        Row(
            "W0 no-op, with retry and dead letters",
            Side("engine", options={**options, "letters_to": LETTERS}),
            plain,
            goal="≥ 0.95 of the same without",
        ),
    ]
    return [dataclasses.replace(row, shared=shared) for row in rows]


W1_KEYS = (1, 2, 5, 10, 100, 1_000, 10_000)


def _w1(keys: int) -> Row:
    options = {"records": 10_000, "work": "spread", "workers": 100}
    return Row(
        f"W1 0–5 ms, 100 workers, {keys:,} keys",
        Side("engine", f"even{keys}", options),
        Side("bare_threads_by_key", f"even{keys}", options),
        goal="≥ 0.95 of bare threads",
        warm_up=False,
    )


# Handler time in seconds, and how many records make about two seconds of it on 100 workers.
W2_WORK = [(0.0001, 60_000), (0.001, 60_000), (0.01, 18_000), (0.05, 4_000)]
# The same for 1000 tasks, which one core limits; `give way` awaits a turn of the loop.
W2_TASKS: list[tuple[str | float, int]] = [
    (0.0, 400_000),
    ("give way", 250_000),
    (0.0001, 150_000),
    (0.001, 150_000),
    (0.01, 120_000),
    (0.05, 40_000),
]


def _w2(work_s: float, records: int) -> Row:
    options = {"records": records, "work": work_s, "workers": 100}
    return Row(
        f"W2 {work_s * 1e3:g} ms, 100 threads",
        Side("engine", options=options),
        Side("bare_threads", options=options),
        goal="≥ 0.95 of bare threads" if work_s >= 0.01 else UNTIL_FULL,
    )


def _w2_by_hand(work_s: float) -> Row:
    options = {"seconds": 4.0, "work": work_s}
    return Row(
        f"W2 {work_s * 1e3:g} ms, 100 threads, compared with queues by hand",
        Side("engine_steady", options={**options, "workers": 100}),
        Side("hand_queues", options={**options, "counts": [100]}),
        goal="≥ 0.85 of queues by hand, which track no commits",
    )


UNTIL_FULL = "≥ 0.95 of bare threads, if the CPU is not full"


def _w2_tasks(work: str | float, records: int) -> Row:
    options = {"records": records, "work": work, "workers": 1_000}
    name = work if isinstance(work, str) else f"{work * 1e3:g} ms"
    return Row(
        f"W2 {name}, 1000 tasks, raw `Message`",
        Side("engine", options={**options, "kind": "asyncio", "raw": True}),
        Side("hand_tasks", options=options),
        goal="≥ 0.9 of tasks and queues by hand",
    )


W3_RECORDS = 20_000
# What it is called, the handler, and the kinds of workers it is for.
W3_WORK = [
    ("sleep 5 ms", 0.005, ("threads", "asyncio")),
    ("500 × SHA-256", "sha_500", ("threads", "processes")),
    ("5 ms I/O", "io", ("threads", "asyncio")),
]


def _w3() -> list[Row]:
    def row(name: str, work: str | float, kind: str) -> Row:
        options = {"records": W3_RECORDS, "work": work, "workers": 100}
        return Row(
            f"W3 {name}, 100 keys, {kind}",
            Side("engine", "four", {**options, "kind": kind}),
            Side("bare_threads_by_key", "four", options),
            goal="compared with 100 threads by hand",
        )

    return [row(name, work, kind) for name, work, kinds in W3_WORK for kind in kinds]


# See `Row.windows`.
LATENCY_WINDOWS = 3


def _w4a() -> Row:
    cold = {"seconds": 8.0, "work_s": 0.001, "workers": 100}
    return Row(
        "W4 (a) p99 (ms) of records of 1 ms, while a hot key is busy for 80 % of the time",
        Side("engine_latency", LIVE, {**cold, "hot_s": 0.02}, live_per_s=2_000, hot_per_s=40),
        Side("engine_latency", LIVE, {**cold, "hot_s": 0.001}, live_per_s=2_000, hot_per_s=40),
        figure="p99_ms",
        goal="≤ 1.2 × without the hot key",
        windows=LATENCY_WINDOWS,
    )


def _w4b() -> list[Row]:
    # The hot partition's share is 2000 records and the lane handles 50 of 1000/s: full after 2.1 s.
    options = {"seconds": 8.0, "hot_s": 0.02, "hot_per_s": 1_000, "backlog_records_max": 16_000}
    hot = Side("engine_overload", LIVE, options, live_per_s=2_000, hot_per_s=1_000)
    return [
        Row(
            "W4 (b) p99 (ms) of records of 1 ms, while a hot key in another partition gets 20 × the records "
            "that can be handled for one key",
            hot,
            dataclasses.replace(hot, hot_per_s=0),
            figure="p99_ms",
            goal="≤ 1.2 × without the hot key",
        ),
        Row(
            "W4 (b) seconds until the hot key's partition is paused, against share ÷ excess rate",
            hot,
            None,
            figure="paused_s",
            limit_figure="formula_s",
            goal="≥ 1; records of the partition's other keys count too",
            warm_up=False,
        ),
    ]


W5_KEYS = 10_000
W5_POISON = (0.001, 0.02)
W5_WORK_S, W5_WORKERS = 0.02, 100
W5_PER_S = W5_WORKERS / W5_WORK_S
# Of the topic's records: those that wait for the last retries do not count.
W5_COUNTED = 0.8
# Runs that long are for the retries.
LONG_MINUTES = 1.5


def _w5_records(minutes: float) -> int:
    return int(W5_PER_S * 60 * minutes)


def _w5(share: float, minutes: float) -> Row:
    # Three waits in a run at least: 30 s from a minute and a half on.
    retry_s = min(30.0, 20.0 * minutes)
    # Poison that comes in while one waits, each with what its key gets meanwhile; twice that to be safe.
    parked = math.ceil(2 * W5_PER_S * share * retry_s * (1 + W5_PER_S / W5_KEYS * retry_s))
    budget = max(parked, 20_000)  # a partition's share is two batches at least, of 1000 each
    options = {
        "records": _w5_records(minutes),
        "work": W5_WORK_S,
        "workers": W5_WORKERS,
        "retry_s": retry_s,
        "parked_records_max": budget,
    }
    every = round(1 / share)
    return Row(
        f"W5 {share:.1%} poison, {retry_s:g} s retry, {minutes:g} min, {budget:,} may be parked",
        Side("engine_poisoned", "poison", {**options, "poison_every": every}),
        Side("engine_poisoned", "poison", {**options, "poison_every": 0}),
        goal="≥ 0.98 of the same without poison",
        warm_up=False,
        together=minutes >= LONG_MINUTES,
    )


def _w6() -> Row:
    options = {"records": 200_000, "work": 0.001, "workers": 100, "event_hubs": True}
    # As Event Hubs was seen to do it: 1.1 s each, and beyond two a second none.
    slow = CommitPolicy(
        delay_s=1.1, per_s=2, excess_code=confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    )
    return Row(
        "W6 1 ms, 100 threads, commits of 1.1 s",
        Side("engine", options=options, commits=slow),
        Side("engine", options=options, commits=CommitPolicy()),
        goal="≥ 0.98 of the same with quick commits",
    )


def _w7() -> Row:
    options = {"records": 2_000, "work": "sha_2000"}
    return Row(
        "W7 2000 × SHA-256, a process for each core",
        Side("engine", "four", {**options, "kind": "processes"}),
        Side("bare_calls", "four", options),
        goal="≥ 0.9 of cores × one bare process",
    )


W8_KEYS = (10_000, 1, 100, 1_000_000)


def _w8(keys: int) -> Row:
    options = {"records": FILLED_RECORDS}
    return Row(
        f"W8 {keys:,} keys",
        Side("engine", f"keys{keys}", options),
        Side("bare_loop", f"keys{keys}", options),
        goal="within 20 % of each other; memory flat",
    )


def _w9(*, windows: int) -> Row:
    return Row(
        "W9 latency p99 (ms) at 10 000/s",
        Side("engine_latency", LIVE, {"seconds": 4.0}, live_per_s=10_000),
        Side("bare_latency", LIVE, {"seconds": 4.0}, live_per_s=10_000),
        figure="p99_ms",
        goal="≤ the bare loop's + 5 ms",
        windows=windows,
    )


def _sized(row: Row, size: float) -> Row:
    sides = {name: getattr(row, name) for name in ("ours", "limit", "other", "other_limit")}
    return dataclasses.replace(row, **{name: _sized_side(side, size) for name, side in sides.items()})


def _sized_side(side: Side | None, size: float) -> Side | None:
    if side is None:
        return None
    options = dict(side.options)
    if "records" in options:
        options["records"] = max(200, math.ceil(options["records"] * size))
    if "after" in options:
        options["after"] = math.floor(options["after"] * size)
    if "seconds" in options:
        options["seconds"] = max(2.0, options["seconds"] * size)
    return dataclasses.replace(side, options=options)


def _sized_topic(topic: Topic, size: float) -> Topic:
    if not topic.may_be_smaller:
        return topic
    records = max(200, math.ceil(topic.records * size))
    return dataclasses.replace(topic, records=records, keys=min(topic.keys, records))
