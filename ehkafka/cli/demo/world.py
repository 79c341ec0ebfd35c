"""The simulated world: which home's sensor says what next.

Pure but for the clock and the random source handed in. Called by the simulator alone.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from ehkafka.cli.demo.homes import SLOW_HOMES, HomeState
from ehkafka.cli.demo.plan import HOMES

if TYPE_CHECKING:
    from random import Random

# Slow homes are busy homes, else their lanes would be too short to be seen: one reading in 1000 is theirs.
SLOW_SHARE: Final = 1 / 1_000
# Up to these, in this order: the rest are temperatures.
DOOR, MOTION, SMOKE = 0.3, 0.6, 0.7


class Reading(NamedTuple):
    """One record to be produced."""

    partition: int
    key: bytes
    value: bytes


class World:
    """Makes readings, and knows how many alarms a handler that sees them in order has to raise."""

    def __init__(self, random: Random, partitions: int) -> None:
        self._random = random
        self._partitions = partitions
        self._slow = sorted(SLOW_HOMES)
        self._states: dict[str, HomeState] = {}
        self._last_us = 0
        self.alarms = 0

    def next_reading(self, now_us: int) -> Reading:
        """Return the next reading; `now_us` is the time in microseconds since 1970."""
        draw = self._random.random
        if draw() < SLOW_SHARE:
            home = self._slow[int(draw() * len(self._slow))]
        else:
            home = f"home-{int(draw() * HOMES):06d}"
        state = self._states.get(home)
        if state is None:
            state = self._states[home] = HomeState()
        # No two readings share a time, so a reader can tell their order from the payload too.
        self._last_us = max(self._last_us + 1, now_us)
        kind, value = self._observe(state)
        reading = {
            "home": home,
            "sensor": f"{kind}-1",
            "kind": kind,
            "value": value,
            "time": self._last_us,
        }
        self.alarms += state.apply(reading)
        key = home.encode()
        # As librdkafka's default partitioner does, but known before it is produced.
        return Reading(zlib.crc32(key) % self._partitions, key, orjson.dumps(reading))

    def _observe(self, state: HomeState) -> tuple[str, float]:
        draw = self._random.random()
        if draw < DOOR:
            return "door", 0 if state.door_open else 1
        if draw < MOTION:
            return "motion", int(draw * 1_000) % 2
        if draw < SMOKE:
            return "smoke", round((draw - MOTION) / (SMOKE - MOTION), 3)
        return "temperature", round(10 + 20 * draw, 1)
