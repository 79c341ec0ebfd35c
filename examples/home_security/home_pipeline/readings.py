"""Readings of a simulated town: which homes there are, which sensors they have, what these say.

Pure: the same seed draws the same readings; times are computed from the caller's, no clock is read. A few
readings are broken on purpose, as they are in life. Called by the simulator and by tests.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, count
from typing import TYPE_CHECKING, Literal, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECOND_US = 1_000_000
JITTER_US = 1_500_000
"""A reading reaches the broker up to this much after it was taken, so event times are not in order."""

LIVELY_HOMES = 100
LIVELY_SHARE = 0.1
"""The first homes send a tenth of all readings: keys are never spread evenly, and their pages move."""

BROKEN_SHARE = 0.002
WRONG_CLOCK_US = 3_600 * SECOND_US

LeftOut = Literal["broken", "wrong clock"]


class Reading(NamedTuple):
    """One reading as a sensor means it."""

    home: str
    kind: str
    unit: str
    at_us: int
    value: float
    alarm: bool


class Sent(NamedTuple):
    """A record to produce. `reading` is what it means, `left_out` why no engine may count it."""

    key: str
    value: bytes
    timestamp_ms: int
    reading: Reading
    left_out: LeftOut | None


@dataclass(frozen=True, slots=True)
class Sensor:
    """A kind of sensor: which part of the homes has it, how often it speaks, what it says."""

    kind: str
    unit: str
    homes_percent: int
    weight: int
    says: Callable[[random.Random, int, float], float]
    alarm_from: float | None = None

    def is_in(self, home: int) -> bool:
        """Whether a home has it: decided by its number's last two digits, so that nothing is remembered."""
        salt = sum(self.kind.encode())
        return (home % 100 * 61 + salt * 37) % 100 < self.homes_percent


def quarters(value: float) -> float:
    """Round to quarters: binary fractions, so that sums are exact in any order and by any engine."""
    return round(value * 4) / 4


def temperature(draw: random.Random, home: int, at_s: float) -> float:
    """Say how warm it is: each home by its own taste, slowly up and down."""
    return quarters(19.0 + home % 13 / 4 + 1.5 * math.sin(at_s / 170 + home) + draw.random())


def power(draw: random.Random, home: int, at_s: float) -> float:
    """Say what a home draws: a base, and now and then a kettle."""
    return quarters(140.0 + home % 90 + 60 * math.sin(at_s / 90 + home) + (draw.random() < 0.1) * 1800)


def smoke(draw: random.Random, _home: int, _at_s: float) -> float:
    """Say how much smoke there is: hardly ever any."""
    return quarters(55 + 40 * draw.random()) if draw.random() < 0.002 else quarters(3 * draw.random())


def yes_or_no(draw: random.Random, _home: int, _at_s: float) -> float:
    """Return whether a person moves, or a door is open."""
    return float(draw.randrange(2))


def water(draw: random.Random, _home: int, _at_s: float) -> float:
    """Say how much water flows; a lot is a burst pipe."""
    return quarters(60 + 20 * draw.random()) if draw.random() < 0.004 else quarters(9 * draw.random())


SENSORS = (
    Sensor("temperature", "°C", 100, 4, temperature),
    Sensor("motion", "", 80, 4, yes_or_no),
    Sensor("door", "", 65, 2, yes_or_no),
    Sensor("power", "W", 50, 3, power),
    Sensor("smoke", "%", 40, 1, smoke, alarm_from=50),
)
NEW_SENSOR = Sensor("water", "l/min", 60, 3, water, alarm_from=50)
"""Sold only later: nothing that reads the topic has heard of it before its first reading."""


def home_name(number: int) -> str:
    """Return a home's key."""
    return f"home-{number:06d}"


@dataclass(frozen=True, slots=True)
class Town:
    """So many homes that send `rate` readings a second from `begin_us` on; `NEW_SENSOR` joins later."""

    homes: int
    rate: int
    begin_us: int
    seed: int = 1
    new_sensor_after_s: float = math.inf

    def sent(self) -> Iterator[Sent]:
        """Yield records without end, in the order of their Kafka timestamps."""
        draw = random.Random(self.seed)  # noqa: S311 - the same readings every time
        for number in count():
            at_us = self.begin_us + number * SECOND_US // self.rate
            yield self._one(draw, at_us, at_us - self.begin_us >= self.new_sensor_after_s * SECOND_US)

    def closing(self, at_us: int) -> Sent:
        """Return one good reading of the first home, to move time on where nothing else is sent."""
        reading = Reading(home_name(0), "temperature", "°C", at_us, 20.0, alarm=False)
        return Sent(reading.home, encode(reading), at_us // 1000, reading, None)

    def _one(self, draw: random.Random, at_us: int, is_new_sold: bool) -> Sent:
        lively = draw.random() < LIVELY_SHARE
        home = draw.randrange(min(LIVELY_HOMES, self.homes) if lively else self.homes)
        sensor = _pick(draw, home, is_new_sold)
        value = sensor.says(draw, home, at_us / SECOND_US)
        alarm = sensor.alarm_from is not None and value >= sensor.alarm_from
        taken_us = at_us - draw.randrange(JITTER_US)
        reading = Reading(home_name(home), sensor.kind, sensor.unit, taken_us, value, alarm)
        if draw.random() >= BROKEN_SHARE:
            return Sent(reading.home, encode(reading), at_us // 1000, reading, None)
        return _spoilt(draw, reading, at_us)


def encode(reading: Reading) -> bytes:
    """Return what goes over the wire."""
    return orjson.dumps(
        {
            "home": reading.home,
            "kind": reading.kind,
            "unit": reading.unit,
            "at": reading.at_us,
            "value": reading.value,
            "alarm": reading.alarm,
        }
    )


def _pick(draw: random.Random, home: int, is_new_sold: bool) -> Sensor:
    sensors, weights = _sensors_of(home % 100, is_new_sold)
    return draw.choices(sensors, cum_weights=weights)[0]


@cache
def _sensors_of(home: int, is_new_sold: bool) -> tuple[list[Sensor], list[int]]:
    """Return a home's sensors and the running sum of their weights."""
    sold = (*SENSORS, NEW_SENSOR) if is_new_sold else SENSORS
    sensors = [sensor for sensor in sold if sensor.is_in(home)]
    return sensors, list(accumulate(sensor.weight for sensor in sensors))


def _spoilt(draw: random.Random, reading: Reading, at_us: int) -> Sent:
    """Make a record that must not be counted: half a reading, something else, or one of another hour."""
    way = draw.randrange(3)
    if way == 0:
        value = encode(reading)[: draw.randrange(1, 40)]
    elif way == 1:
        value = encode(reading).replace(reading.home.encode(), b"<script>alert(1)</script>")
    else:
        late = reading._replace(at_us=reading.at_us - WRONG_CLOCK_US)
        return Sent(reading.home, encode(late), at_us // 1000, late, "wrong clock")
    return Sent(reading.home, value, at_us // 1000, reading, "broken")
