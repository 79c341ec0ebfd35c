"""W16: two members of a group on one machine, started by `--members`, against one."""

from __future__ import annotations

from _bench_row import Row, Side, Topic

TOPIC, RECORDS, PARTITIONS = "members8", 3_000_000, 8
# Enough for two members that parse JSON, while they come together and are watched: never less.
MEMBERS_TOPICS = {TOPIC: Topic(10_000, RECORDS, partitions=PARTITIONS, json=True, may_be_smaller=False)}
MEMBERS = 2
# What it is called, and the handler.
WORK = [
    ("JSON", "json"),
    ("20 µs of Python", "compute 20 µs"),
    ("1 ms of Python", "compute 1 ms"),
    ("no-op", 0.0),
]


def members_rows() -> list[Row]:
    """Return W16's rows."""
    return [_row(*work) for work in WORK]


def _row(name: str, work: str | float) -> Row:
    options = {
        "topic_records": RECORDS,
        "partitions": PARTITIONS,
        "seconds": 3.0,
        "work": work,
    }
    ours = {**options, "kind": "ehkafka"}
    bare = {**options, "kind": "bare"}
    return Row(
        f"W16 {name}, {MEMBERS} members against one",
        Side("members", TOPIC, {**ours, "members": MEMBERS}),
        Side("members", TOPIC, {**ours, "members": 1}),
        goal="≥ 1.8, or what two bare processes reach",
        warm_up=False,
        other=Side("members", TOPIC, {**bare, "members": MEMBERS}),
        other_limit=Side("members", TOPIC, {**bare, "members": 1}),
        other_name="two bare processes",
        remarks=(("window_s", "over {:.1f} s"),),
    )
