"""Records through an app: whole, in order of each key, stamped by the service, and committed at the end."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from _live.probe import CLIENT_SETTINGS, Observed, Probe, differs, noted, ok
from ehkafka.embedded import topics

if TYPE_CHECKING:
    import ehkafka
    from _live.site import Site

COUNT = 200
KEYS = 20
HEADERS: list[tuple[str, str | bytes | None]] = [("text", "ÄÖ"), ("bytes", b"\x00\xff"), ("empty", b"")]
LIMIT_S = 40.0


def records(site: Site) -> Observed:
    """Send some, handle them, and compare."""
    group, mark = site.group("records"), site.ledger.run.encode()
    seen: list[ehkafka.Record] = []
    lock = threading.Lock()
    app = site.app(group)

    @app.handler(site.topic, workers=8)
    def handle(record: ehkafka.Record) -> None:
        if (record.value() or b"").startswith(mark):
            with lock:
                seen.append(record)

    with site.running(app):
        sent = [(b"key-%d" % (number % KEYS), mark + b" %d" % number) for number in range(COUNT)]
        site.produce(site.topic, sent, headers=HEADERS)
        is_whole = site.wait(lambda: len(seen) >= COUNT, LIMIT_S)
    if not is_whole:
        return differs(f"{len(seen)} of {COUNT} records were handled within {LIMIT_S:.0f} s")
    return _compared(site, group, seen)


def _compared(site: Site, group: str, seen: list[ehkafka.Record]) -> Observed:
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    ends: dict[int, int] = defaultdict(int)
    for record in seen:
        by_key[record.key()].append(int((record.value() or b"").split()[1]))
        ends[record.partition()] = max(ends[record.partition()], record.offset() + 1)
    properties = site.endpoint.client_properties()
    commits = topics.committed(properties["bootstrap.servers"], group, site.topic, properties=properties)
    # Headers that are text come as text, or as the bytes of it.
    expected = [(name, value.encode() if isinstance(value, str) else value) for name, value in HEADERS]
    problems = [
        *(["records of a key are out of order"] if any(v != sorted(v) for v in by_key.values()) else []),
        *(["records came twice"] if len(seen) != COUNT else []),
        *(["headers are changed"] if any(list(one.headers() or []) != expected for one in seen) else []),
        *(["the commit is not the end of what was handled"] if _falls_short(commits, ends) else []),
    ]
    kinds = {record.timestamp()[0] for record in seen}
    stamped = (
        "by the service" if kinds == {TIMESTAMP_LOG_APPEND_TIME} else f"otherwise (kinds {sorted(kinds)})"
    )
    lowest = min(record.offset() for record in seen)
    facts = {"first_offset": lowest, "timestamp_kinds": sorted(kinds), "ends": dict(ends)}
    text = f"{COUNT} records of {KEYS} keys, headers included; first offset {lowest}, stamped {stamped}"
    if problems:
        return differs(f"{'; '.join(problems)} ({text})", **facts)
    return ok(text, **facts) if kinds == {TIMESTAMP_LOG_APPEND_TIME} else noted(text, **facts)


def _falls_short(commits: dict[int, int | None], ends: dict[int, int]) -> bool:
    return any((commits.get(number) or 0) < end for number, end in ends.items())


PROBES = (
    Probe(
        name="records",
        documented="Keys, values and headers as sent; timestamps are the enqueued time (LogAppendTime)",
        link=CLIENT_SETTINGS,
        function=records,
        expected_s=12.0,
        limit_s=90.0,
        records=COUNT,
        kilobytes=20,
        creates="a group",
    ),
)
