"""The demo's world: which home's sensor says what next, and the handler that hears it."""

from __future__ import annotations

import random
import time
import zlib
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
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


class World:
    """Makes readings. Seeded, so that a run can be repeated; nothing here is a secret."""

    def __init__(self, partitions: int) -> None:
        self._draw = random.Random(0).random  # noqa: S311
        self._partitions = partitions
        self._readings: dict[str, int] = {}

    def next_reading(self) -> tuple[int, bytes, bytes]:
        """Return the next reading: its partition, key and value."""
        home = f"home-{int(self._draw() * HOMES):06d}"
        if self._draw() < SLOW_SHARE:
            home = SLOW_HOMES[int(self._draw() * len(SLOW_HOMES))]
        number = self._readings[home] = self._readings.get(home, 0) + 1
        smoke = round(self._draw(), 3)
        reading = {"home": home, "sensor": "smoke-1", "number": number, "smoke": smoke, "time": time.time()}
        key = home.encode()
        # As librdkafka's default partitioner does, but known before it is produced.
        return zlib.crc32(key) % self._partitions, key, orjson.dumps(reading)
