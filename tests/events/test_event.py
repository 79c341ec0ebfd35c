"""An event and its sentence stand in one file: telemetry asks the event, and knows no kind by name."""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka import events
from ehkafka.events import Event
from ehkafka.events.event import Failure
from ehkafka.events.rebalance import Rebalanced
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pytest

CLOSE_S = 20.0
# They share fields and a sentence's parts; no one emits them.
BASES = {Event, Failure, Rebalanced}


@dataclass(frozen=True, slots=True)
class KettleBoils(Event):
    """Known to this test alone."""

    level: ClassVar[int] = logging.WARNING
    room: str
    degrees: int

    def sentence(self) -> str:
        """Say it."""
        return f"The kettle in the {self.room} boils at {self.degrees} °C."

    def subject(self) -> Hashable:
        """One line for each room."""
        return self.room

    def attachment(self) -> str:
        """Show more below."""
        return f"steam of {self.degrees}"


def test_a_new_event_is_one_class_in_one_file(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its level, sentence, fields and attachment, thinned by its subject, and counted."""
    caplog.set_level(logging.DEBUG, logger="ehkafka")
    bus = EventBus()
    bus.start()
    bus.emit(KettleBoils("kitchen", 97))
    bus.emit(KettleBoils("hall", 98))
    bus.emit(KettleBoils("kitchen", 99, at_s=7.0))
    assert bus.close(CLOSE_S) == 0

    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "The kettle in the kitchen boils at 97 °C.\nsteam of 97"),
        (logging.WARNING, "The kettle in the hall boils at 98 °C.\nsteam of 98"),
        # Owed at the end.
        (logging.WARNING, "Also at 00:00:07 UTC: The kettle in the kitchen boils at 99 °C.\nsteam of 99"),
    ]
    assert [vars(record)["event"] for record in caplog.records] == ["KettleBoils"] * 3
    assert [vars(record)["degrees"] for record in caplog.records] == [97, 98, 99]
    assert bus.counters_snapshot()["KettleBoils"] == 3


def test_a_kind_without_a_subject_repeats_itself(caplog: pytest.LogCaptureFixture) -> None:
    """So a warning that nobody thought about cannot flood the log."""

    @dataclass(frozen=True, slots=True)
    class LidRattles(Event):
        level: ClassVar[int] = logging.WARNING
        times: int

        def sentence(self) -> str:
            return f"The lid rattled {self.times} times."

    bus = EventBus()
    bus.start()
    for times in range(1, 6):
        bus.emit(LidRattles(times, at_s=float(times)))
    bus.close(CLOSE_S)

    assert [record.getMessage() for record in caplog.records] == [
        "The lid rattled 1 times.",
        "4 more times from 00:00:02 UTC to 00:00:05 UTC: The lid rattled 5 times.",
    ]


def test_each_kind_is_a_name_of_the_room() -> None:
    """Whoever adds a class and forgets it in its file's `__all__` hears of it here."""
    groups = [
        importlib.import_module(f"{events.__name__}.{m.name}") for m in pkgutil.iter_modules(events.__path__)
    ]
    kinds = {
        thing
        for group in groups
        for thing in vars(group).values()
        if inspect.isclass(thing) and issubclass(thing, Event) and thing not in BASES
    }
    assert len(kinds) > len(groups)
    assert [kind.__name__ for kind in kinds if getattr(events, kind.__name__, None) is not kind] == []
    assert [kind.__name__ for kind in kinds if kind.sentence is Event.sentence] == []


def test_no_field_has_a_name_that_log_records_have() -> None:
    """Fields go along with the log line, and `logging` refuses to overwrite its own."""
    own = set(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message", "asctime"}
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert len(kinds) > 50
    assert [
        (kind, field.name)
        for kind in kinds
        if is_dataclass(kind)
        for field in fields(kind)
        if field.name in own
    ] == []


def test_a_stop_with_a_running_call_is_not_said_to_leave_nothing() -> None:
    """Its record is left, too, and named when the app has stopped."""
    text = events.RecordsLeft(0, 0, (), 140).sentence()
    assert text.startswith("ehkafka handles no finished record again; ")
