"""The demo's world: which home's sensor sends what next, and the handler of these readings."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka import Record

HOMES: Final = 100_000
# Homes behind a slow line: handling one of their readings takes as long as a call to another service.
SLOW_HOMES: Final = tuple(f"home-{number:06d}" for number in (7, 77, 777, 7_777, 17_777, 47_777, 77_777))
SLOW_S: Final = 0.008
# Slow homes are busy homes, else their lanes would be too short to be seen: one reading in 1000 is theirs.
SLOW_SHARE: Final = 1 / 1_000


class Homes:
    """Compares each home's own count of its readings, so a swap shows without offsets and without a checker.

    A plain dict and no lock, although many workers use it: readings of one home are handled one after
    another, so a home is touched by one worker at a time; different homes are different entries.
    """

    def __init__(self) -> None:
        self.readings: dict[str, int] = {}
        # Homes of readings that came before an earlier one.
        self.swapped: list[str] = []

    def handle(self, record: Record) -> None:
        """Handle one reading, on any worker."""
        reading = record.json()
        home, number = reading["home"], reading["number"]
        before = self.readings.get(home, 0)
        if number > before + 1:
            self.swapped.append(home)
        # One that is redelivered after a rebalance is no news.
        self.readings[home] = max(before, number)
        if home in SLOW_HOMES:
            time.sleep(SLOW_S)


def make_readings() -> Iterator[tuple[bytes, bytes]]:
    """Yield readings without end, each its key and value. Seeded, so that a run can be repeated."""
    draw, counts = random.Random(0).random, Counter[str]()  # noqa: S311 - nothing here is a secret
    while True:
        home = f"home-{int(draw() * HOMES):06d}"
        if draw() < SLOW_SHARE:
            home = SLOW_HOMES[int(draw() * len(SLOW_HOMES))]
        counts[home] += 1
        reading = {"home": home, "number": counts[home], "smoke": round(draw(), 3), "time": time.time()}
        yield home.encode(), orjson.dumps(reading)
