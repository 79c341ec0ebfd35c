"""Readings of a simulated town: which homes there are, which sensors they have, what these say.

Pure: the same seed draws the same readings; times are computed from the caller's, no clock is read. A few
readings are broken on purpose, and some sensors fall silent, as they do in life. Called by the simulator and
by tests.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple
from zlib import crc32

import orjson

from home_pipeline.names import home_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TOPIC, PARTITIONS = "readings", 16
SECOND_US = 1_000_000
JITTER_US = 1_500_000
"""A reading reaches the broker up to this much after it was taken, so event times are not in order."""

LIVELY_HOMES = 100
LIVELY_EVERY = 10
"""The first homes send every tenth reading: keys are never spread evenly, and their pages move."""
QUICKER = 6
"""Whatever lively homes do, they do so many times as often, and for shorter."""

BROKEN_SHARE = 0.002
WRONG_CLOCK_US = 3_600 * SECOND_US
SPOILT = "spoilt"
"""The kind that engines count what must not be counted under: no sensor may be called so."""

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


class Rhythm(NamedTuple):
    """When a switch is on: of each stretch of `every_s`, for at most `most_s`, in a share of these."""

    every_s: float
    most_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Sensor:
    """A sensor that homes may have: which part of them has it, what it says."""

    kind: str
    unit: str
    homes_percent: int
    says: Rhythm | Callable[[random.Random, int, float], float]
    alarm_from: float | None = None

    def is_in(self, home: int) -> bool:
        """Whether a home has it: decided by its number's last two digits, so that nothing is remembered."""
        salt = sum(self.kind.encode())
        return (home % 100 * 61 + salt * 37) % 100 < self.homes_percent

    def value(self, draw: random.Random, seed: int, home: int, at_s: float) -> float:
        """Return what it says: a switch 1 or 0, which the time alone decides; others draw a part of it."""
        if isinstance(self.says, Rhythm):
            return float(is_on(seed, home, self.kind, at_s, self.says))
        return self.says(draw, home, at_s)

    def is_silent(self, seed: int, home: int, at_s: float) -> bool:
        """Whether it says nothing for a long while; those of the first home never are."""
        rhythm = LIVELY_SILENCE if home < LIVELY_HOMES else SILENCE
        return home > 0 and is_on(seed, home, f"silent {self.kind}", at_s, rhythm)


def is_on(seed: int, home: int, what: str, at_s: float, rhythm: Rhythm) -> bool:
    """Tell whether something is on at a time: it is the same whenever, and wherever, it is asked for."""
    of_home = (seed, home, crc32(what.encode()))
    quicker = QUICKER if home < LIVELY_HOMES else 1
    stretch, into = divmod(at_s * quicker / rhythm.every_s + drawn(*of_home), 1)
    if drawn(*of_home, int(stretch)) >= rhythm.share:
        return False
    return into * rhythm.every_s < rhythm.most_s * (0.2 + 0.8 * drawn(*of_home, int(stretch), 1))


def drawn(*numbers: int) -> float:
    """Return a number below 1 that is always the same for these: Python's hash of whole numbers is."""
    return (hash(numbers) * 0x9E3779B97F4A7C15 >> 32 & 0xFFFFFFFF) / 2**32


def quarters(value: float) -> float:
    """Round to quarters: binary fractions, so that sums are exact in any order and by any engine."""
    return round(value * 4) / 4


def temperature(draw: random.Random, home: int, at_s: float) -> float:
    """Say how warm it is: each home by its own taste, slowly up and down."""
    return quarters(19.0 + home % 13 / 4 + 1.5 * math.sin(at_s / 170 + home) + draw.random())


def power(draw: random.Random, home: int, at_s: float) -> float:
    """Say what a home draws: a base, and now and then a kettle."""
    return quarters(140.0 + home % 90 + 60 * math.sin(at_s / 90 + home) + (draw.random() < 0.1) * 1800)


def hardly_ever(draw: random.Random, _home: int, _at_s: float) -> float:
    """Say a small amount, and once in a thousand times one that is an alarm."""
    return quarters(60 + 20 * draw.random() if draw.random() < 0.001 else 6 * draw.random())


SILENCE = Rhythm(21_600, 21_600, 0.01)
LIVELY_SILENCE = Rhythm(3_600, 3_600, 0.03)
"""Some minutes, so that a person who tries the demo sees sensors fall silent and speak again."""
SENSORS = (
    Sensor("temperature", "°C", 100, temperature),
    Sensor("door_front", "", 100, Rhythm(1_800, 900, 0.5)),
    Sensor("door_garden", "", 40, Rhythm(3_600, 1_200, 0.4)),
    Sensor("window_kitchen", "", 65, Rhythm(5_400, 2_700, 0.4)),
    Sensor("window_bedroom", "", 50, Rhythm(7_200, 3_600, 0.4)),
    Sensor("motion", "", 80, Rhythm(300, 150, 0.6)),
    Sensor("glass_break", "", 30, Rhythm(3_600, 120, 0.005), alarm_from=1),
    Sensor("power", "W", 50, power),
    Sensor("smoke", "%", 40, hardly_ever, alarm_from=50),
)
NEW_SENSOR = Sensor("water", "l/min", 60, hardly_ever, alarm_from=50)
CARBON_MONOXIDE = Sensor("carbon_monoxide", "ppm", 50, hardly_ever, alarm_from=50)
"""Sold only later: nothing that reads the topic has heard of these before their first reading."""


class Round:
    """The sensors of some homes in an order that is fixed: each has its turn, then all of them again."""

    def __init__(self, homes: int, sold: Sequence[Sensor]) -> None:
        # By the last two digits of a home's number, which decide what it has.
        self._block = [(home, sensor) for home in range(100) for sensor in sold if sensor.is_in(home)]
        last = sum(home < homes % 100 for home, _sensor in self._block)
        self.sensors = homes // 100 * len(self._block) + last
        # Not one home after the other: steps that come by all sensors, by nearly the golden ratio.
        self._step = int(self.sensors * 0.618) or 1
        while math.gcd(self._step, self.sensors) > 1:
            self._step += 1
        self._at = 0

    def next(self) -> tuple[int, Sensor]:
        """Return the home and the sensor whose turn it is."""
        self._at = (self._at + self._step) % self.sensors
        block, place = divmod(self._at, len(self._block))
        home, sensor = self._block[place]
        return 100 * block + home, sensor


@dataclass(frozen=True, slots=True)
class Town:
    """So many homes that send `rate` readings a second from `begin_us` on.

    `NEW_SENSOR` joins later; what the caller adds to `sold` joins with the next reading.
    """

    homes: int
    rate: int
    begin_us: int
    seed: int = 1
    new_sensor_after_s: float = math.inf
    sold: list[Sensor] = field(default_factory=list)

    @property
    def interval_s(self) -> float:
        """How long a sensor waits for its turn, at most: when all kinds are sold."""
        sensors = Round(self.homes, (*SENSORS, NEW_SENSOR, CARBON_MONOXIDE)).sensors
        return sensors / (self.rate * (1 - 1 / LIVELY_EVERY))

    def sent(self) -> Iterator[Sent]:
        """Yield records without end, in the order of their Kafka timestamps."""
        draw = random.Random(self.seed)  # noqa: S311 - the same readings every time
        sold: tuple[Sensor, ...] = SENSORS
        lively, usual = Round(min(LIVELY_HOMES, self.homes), sold), Round(self.homes, sold)
        for number in count():
            at_us = self.begin_us + number * SECOND_US // self.rate
            is_new_sold = at_us - self.begin_us >= self.new_sensor_after_s * SECOND_US
            now_sold = (*SENSORS, *[NEW_SENSOR] * is_new_sold, *self.sold)
            if now_sold != sold:
                sold = now_sold
                lively, usual = Round(min(LIVELY_HOMES, self.homes), sold), Round(self.homes, sold)
            yield self._one(draw, at_us, usual if number % LIVELY_EVERY else lively)

    def closing(self, at_us: int) -> Sent:
        """Return one good reading of the first home, to move time on where nothing else is sent."""
        reading = Reading(home_name(0), "temperature", "°C", at_us, 20.0, alarm=False)
        return Sent(reading.home, encode(reading), at_us // 1000, reading, None)

    def _one(self, draw: random.Random, at_us: int, turns: Round) -> Sent:
        taken_us = at_us - draw.randrange(JITTER_US)
        home, sensor = turns.next()
        while sensor.is_silent(self.seed, home, taken_us / SECOND_US):
            home, sensor = turns.next()
        value = sensor.value(draw, self.seed, home, taken_us / SECOND_US)
        alarm = sensor.alarm_from is not None and value >= sensor.alarm_from
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
