"""Settings: an app's typed settings, and the secrets among them.

`settings` has the values, each declared with `option`; `reset_name` checks the name of a reset, `secret` has
the values that no text shows; `clock` is where a run has the time from. For a new setting,
`python -m tests.typing.declared` writes its keyword and its row of the docs.
"""

from __future__ import annotations

from ehkafka.settings.option import options_of
from ehkafka.settings.settings import (
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
    "options_of",
]
