"""Which readings count, said once: the local engine calls it, Spark gets the same patterns and numbers.

Pure; what it reads came from strangers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from home_pipeline.readings import SPOILT, Reading

HOME = "home-[0-9]{6}"
KIND = "[a-z][a-z_]{0,23}"
UNIT = "[^\\x00-\\x1f<>&\"']{0,8}"
CLOCK_TOLERANCE_US = 5_000_000
"""A sensor whose clock is farther than this from the broker's is not believed.

Half of `Windows.delay_s`: so the fastest clock that is believed cannot close a window over the slowest one.
"""

LATEST_MS = 4_102_444_800_000
"""A record that claims to be of the year 2100, or from before 1970, is of no home's present."""

LARGEST = 1e9
"""A value beyond this is no measurement (and would make sums infinite)."""

_HOME, _KIND, _UNIT = re.compile(HOME), re.compile(KIND), re.compile(UNIT)
_KEY = re.compile(HOME.encode())


@dataclass(frozen=True, slots=True)
class Windows:
    """How time is cut: windows of `length_s`, closed `delay_s` after the latest reading seen."""

    length_s: int = 10
    delay_s: int = 10

    def begin_s(self, at_us: int) -> int:
        """Return when the window of an instant begins."""
        return at_us // (self.length_s * 1_000_000) * self.length_s


def counted(key: bytes | None, value: bytes | None, timestamp_ms: int) -> Reading | None:
    """Return what a record adds to its home: its reading; one of the kind `SPOILT` if that must not count.

    None for a record that no home has sent, as far as its key says.
    """
    reading = parse(value, timestamp_ms)
    if reading is None and _KEY.fullmatch(key or b"") and 0 <= timestamp_ms < LATEST_MS:
        return Reading((key or b"").decode(), SPOILT, "", timestamp_ms * 1000, 1.0, alarm=False)
    return reading


def parse(value: bytes | None, timestamp_ms: int) -> Reading | None:
    """Return a record's reading, None if it must not be counted."""
    try:
        found = orjson.loads(value or b"")
        home, kind, unit = found["home"], found["kind"], found.get("unit") or ""
        at_us, number, alarm = found["at"], found["value"], found.get("alarm")
        named = _HOME.fullmatch(home) and _KIND.fullmatch(kind) and _UNIT.fullmatch(unit)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not named or kind == SPOILT or type(at_us) is not int or type(number) not in (int, float):
        return None
    if abs(at_us - timestamp_ms * 1000) > CLOCK_TOLERANCE_US or not abs(number) <= LARGEST:
        return None
    if not 0 <= at_us < LATEST_MS * 1000:
        return None
    return Reading(home, kind, unit, at_us, float(number), alarm is True)
