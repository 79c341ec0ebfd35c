"""Reads what a file, a variable or a flag can only write as text: moments, durations, start positions.

Pure. Raises `ValueError` with the forms that are taken; the caller adds the setting's name.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from ehkafka import Auto
from ehkafka.errors import ConfigurationError

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(?P<count>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>ms|s|m|h|d)", re.ASCII)
_AGO = re.compile(r"(?P<count>\d{1,9}(?:\.\d{1,6})?) (?P<unit>second|minute|hour|day)s? ago", re.ASCII)
_TRUE, _FALSE = ("true", "yes", "on", "1", "t", "y"), ("false", "no", "off", "0", "f", "n")
_OFFSET = re.compile(r"\d{1,18}", re.ASCII)
_START_FORMS = (
    "give earliest, latest, an offset such as 1200, a time back such as -10m or '10 minutes ago'"
    " (s, m, h, d), or a moment with its zone such as 2026-01-31T12:00:00Z"
)


def duration(value: object) -> Any:
    """Return `90s`, `10m`, `1.5h` or `7d` as a timedelta; anything else as it is."""
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            raise ValueError("give a duration with its unit, such as 90s, 10m, 1.5h or 7d")
        return timedelta(**{_UNITS[found["unit"]]: float(found["count"])})
    if isinstance(value, int | float):
        # It may mean seconds or days.
        raise ValueError('give a duration with its unit, such as "90s", "10m", "1.5h" or "7d"')  # noqa: TRY004 - pydantic turns a ValueError alone into its message
    return value


def start_position(value: object) -> Any:
    """Return what `App(start=…)` takes for a text; numbers and moments as they are."""
    if isinstance(value, str):
        return _from_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | datetime):
        raise ValueError(_START_FORMS)  # noqa: TRY004 - as above
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(_START_FORMS)
    return value


def reset_choice(value: object) -> Any:
    """Return what `App(reset=…)` takes for a text: a flag as pydantic reads it, else a name."""
    if isinstance(value, str):
        text = value.strip()
        flags = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
        return flags.get(text.lower(), text)
    if not isinstance(value, bool):
        raise ValueError("give true, false, or a name for a reset that is made once")  # noqa: TRY004 - as above
    return value


def workers(value: object) -> Any:
    """Return `auto` or `auto:2-64` as `Auto`; anything else as it is."""
    if isinstance(value, str) and not value.strip().lstrip("+-")[:1].isdigit():
        try:
            return Auto.read(value)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
    return value


def _from_text(text: str) -> str | int | datetime | timedelta:
    if text in {"earliest", "latest"}:
        return text
    if _OFFSET.fullmatch(text):
        return int(text)
    if text.startswith("-") and (found := _DURATION.fullmatch(text[1:])):
        return timedelta(**{_UNITS[found["unit"]]: float(found["count"])})
    if found := _AGO.fullmatch(text):
        return timedelta(**{f"{found['unit']}s": float(found["count"])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_START_FORMS) from None
    if moment.tzinfo is None:
        raise ValueError(_START_FORMS)
    return moment
