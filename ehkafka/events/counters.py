"""The counters that are no kind of event."""

from __future__ import annotations

from typing import Literal

# Beside the one that each kind of event has under its class name.
CounterName = Literal[
    "events_dropped",
    "hook_errors",
    "pause_refused",
    "records_lost",
    "records_restored",
    "records_too_old",
    "records_unassigned",
]
