"""Settings: an app's typed settings, and the secrets among them that nobody must see.

`settings` has the values, `keywords` shows them to type checkers, `reset_name` says what a reset may be
called, `secret` has the values that no text shows; `clock` is where a run has the time from.
"""

from __future__ import annotations

from ehkafka.settings.settings import (
    MEANINGS,
    PROPERTIES,
    Assignor,
    Drain,
    OnNoGroupOffsets,
    OnParkedFull,
    OutOfRange,
    Settings,
    check_max_age,
    check_timeout,
    drain_of,
)

__all__ = [
    "MEANINGS",
    "PROPERTIES",
    "Assignor",
    "Drain",
    "OnNoGroupOffsets",
    "OnParkedFull",
    "OutOfRange",
    "Settings",
    "check_max_age",
    "check_timeout",
    "drain_of",
]
