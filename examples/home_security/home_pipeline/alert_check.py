"""Compares the topic of alerts with the simulator's ledger: one for each alarm, each home's in order.

Reads the whole topic, as a plain client of no group. Called when everything else has ended.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from home_pipeline.alerts import ALERTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from home_pipeline.ledger import Ledger

CHECK_S = 1.0
READ_S = 10.0
_NUMBERS = re.compile("[0-9]+")


def compare_alerts(ledger: Ledger, bootstrap: str, patience_s: float) -> tuple[int, list[str]]:
    """Return how many alarms have an alert, and in words what is wrong; waits while some are missing."""
    deadline_s = time.monotonic() + patience_s
    wanted = sum(count for (_minute_s, _kind, alarm), count in ledger.per_minute.items() if alarm)
    while True:
        sent = read_alerts(bootstrap)
        found, wrong = judge(sent)
        if found >= wanted or wrong or time.monotonic() > deadline_s:
            break
        time.sleep(CHECK_S)
    if found != wanted:
        wrong.append(f"{wanted:,} readings were alarms, and {found:,} have an alert")
    return found, wrong


def judge(alerts: Iterable[tuple[str, str]]) -> tuple[int, list[str]]:
    """Return how many readings the alerts are of, and what is wrong, given homes and places in the topic.

    What comes again may go back, but from there on nothing may be passed over.
    """
    wrong: list[str] = []
    places: dict[str, list[tuple[int, ...]]] = {}
    last: dict[str, int] = {}
    for home, text in alerts:
        known = places.setdefault(home, [])
        # Of `readings[3]@12`: the partition and the offset.
        place = tuple(map(int, _NUMBERS.findall(text)))
        if place not in known:
            if known and (place < max(known) or last[home] != len(known) - 1):
                wrong.append(f"{home}: the alert of {text} came late")
            known.append(place)
        elif known.index(place) > last[home] + 1:
            wrong.append(f"{home}: before {text} came again, others of its home did not")
        last[home] = known.index(place)
    return sum(map(len, places.values())), wrong


def read_alerts(bootstrap: str) -> list[tuple[str, str]]:
    """Return home and place of each alert that is in the topic now, each home's in order."""
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "home-security-check", "enable.auto.commit": False}
    )
    try:
        numbers = sorted(reader.list_topics(ALERTS, timeout=READ_S).topics[ALERTS].partitions)
        places = [TopicPartition(ALERTS, number, 0) for number in numbers]
        left = sum(reader.get_watermark_offsets(place, timeout=READ_S)[1] for place in places)
        reader.assign(places)
        found: list[tuple[str, str]] = []
        while len(found) < left:
            for message in reader.consume(500, READ_S):
                alert = json.loads(message.value() or b"")
                found.append((alert["home"], alert["reading"]))
        return found
    finally:
        reader.close()
