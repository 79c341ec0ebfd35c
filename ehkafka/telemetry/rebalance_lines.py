"""One line for a whole assignment: gathers the events of its partitions, which come one by one.

Used by `LogLines` on the telemetry thread alone. It never holds an event back for longer than the next one
of another kind, or `GATHER_S` without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events.rebalance import Rebalanced

if TYPE_CHECKING:
    from ehkafka.events import Event

# The partitions of one assignment follow each other within a few milliseconds.
GATHER_S = 50e-3


class Gathered:
    """Events of one rebalance that share a line."""

    def __init__(self) -> None:
        self._events: list[Rebalanced] = []

    def __len__(self) -> int:
        return len(self._events)

    def takes(self, event: Event) -> bool:
        """Tell whether an event belongs to the same line as those that were gathered."""
        if not isinstance(event, Rebalanced):
            return False
        return not self._events or event.shares_line_with(self._events[0])

    def add(self, event: Event) -> None:
        """Gather an event that `takes` said yes to."""
        assert isinstance(event, Rebalanced)
        self._events.append(event)

    def take(self) -> list[Rebalanced]:
        """Return what was gathered, and forget it."""
        taken, self._events = self._events, []
        return taken
