"""What `--from` takes: what a start position takes, the last records, and a moment in local time.

Pure.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ehkafka.checks import LastRecords
from ehkafka.cli.settings.text import start_position
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from ehkafka.positions.start import FixedStart

FORMS = (
    "earliest, latest, an offset such as 1200, -10 for the last 10 of each partition, -10m for the last"
    " 10 minutes (s, m, h, d), or a moment such as 2026-01-31T12:00:00Z"
)
_LAST = re.compile(r"-(?P<count>\d{1,9})", re.ASCII)


def parse_from(text: str, *, option: str = "--from") -> FixedStart | LastRecords:
    """Return the place to begin. Raises `ConfigurationError`."""
    if found := _LAST.fullmatch(text):
        return LastRecords(int(found["count"]))
    with suppress(ValueError):
        moment = datetime.fromisoformat(text) if "-" in text[1:] else None
        # Whoever types a moment without a zone means the clock on the wall.
        if moment is not None and moment.tzinfo is None:
            return moment.astimezone()
    try:
        place: FixedStart = start_position(text)
        if isinstance(place, timedelta):
            _ = datetime.now(UTC) - place  # further back than there are dates?
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{option} {text!r} is not a place to begin; give {FORMS}.") from None
    return place
