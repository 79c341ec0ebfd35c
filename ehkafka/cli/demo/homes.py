"""The demo's handler: keeps each home's state and raises alarms.

`Homes.handle` is called by all workers at once. `HomeState` is pure; the simulator runs it too, in the
order in which it produces, so that both must come to the same alarms if no reading was swapped.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka import Record

# Homes behind a slow line: handling one of their readings takes as long as a call to another service.
SLOW_HOMES: Final = frozenset(f"home-{number:06d}" for number in (7, 77, 777, 7_777, 17_777, 47_777, 77_777))
SLOW_S: Final = 0.008
SMOKE_ALARM_LEVEL: Final = 0.9


class HomeState:
    """What is known of one home. One reading at a time, in order."""

    __slots__ = ("alarms", "armed", "door_open", "readings", "temperature")

    def __init__(self) -> None:
        self.armed = True
        self.door_open = False
        self.temperature: float | None = None
        self.readings = 0
        self.alarms = 0

    def apply(self, reading: Mapping[str, Any]) -> bool:
        """Take one reading; return whether it raises an alarm. The order of readings decides that."""
        self.readings += 1
        kind, value = reading["kind"], reading["value"]
        alarm = False
        if kind == "door":
            alarm = bool(value) and self.armed and not self.door_open
            self.door_open = bool(value)
            if alarm:
                self.armed = False
        elif kind == "motion":
            # A quiet house with its door shut arms itself again.
            if not value and not self.door_open:
                self.armed = True
        elif kind == "smoke":
            alarm = value >= SMOKE_ALARM_LEVEL
        else:
            self.temperature = value
        self.alarms += alarm
        return alarm


class Homes:
    """The state of every home heard of.

    A plain dict and no lock, although many workers use it: readings of one home are handled one after
    another, so a home's state is touched by one worker at a time; different homes are different entries.
    """

    def __init__(self) -> None:
        self.states: dict[str, HomeState] = {}

    def handle(self, record: Record) -> None:
        """Handle one reading."""
        reading = record.json()
        home = reading["home"]
        state = self.states.get(home)
        if state is None:
            state = self.states[home] = HomeState()
        state.apply(reading)
        if home in SLOW_HOMES:
            time.sleep(SLOW_S)

    @property
    def alarms(self) -> int:
        """Alarms of all homes. Exact when no handler runs."""
        return sum(state.alarms for state in self.states.values())
