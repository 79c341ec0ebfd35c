"""An event and its sentence stand in one file: telemetry asks the event, and knows no kind by name."""

from __future__ import annotations

import logging
import pkgutil
from dataclasses import fields
from typing import TYPE_CHECKING

from ehkafka import events
from ehkafka.events import Event
from ehkafka.telemetry.bus import EventBus
from tests.kit.events import event_kinds

if TYPE_CHECKING:
    import pytest

CLOSE_S = 20.0


class KettleBoils(Event, level=logging.WARNING, subject="room"):
    """Known to this test alone."""

    room: str
    degrees: int

    def sentence(self) -> str:
        """Say it."""
        return f"The kettle in the {self.room} boils at {self.degrees} °C."

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
    """So a new kind of warning cannot flood the log."""

    class LidRattles(Event, level=logging.WARNING):
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


def test_each_file_is_imported_by_the_room() -> None:
    """So each kind in it is a name of the room."""
    groups = {m.name for m in pkgutil.iter_modules(events.__path__)} - {"event", "history"}
    assert {kind.__module__.rpartition(".")[2] for kind in event_kinds()} == groups


def test_no_field_has_a_name_that_log_records_have() -> None:
    """Fields go along with the log line, and `logging` refuses to overwrite its own."""
    own = set(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message", "asctime"}
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert len(kinds) > 50
    assert [(kind, field.name) for kind in kinds for field in fields(kind) if field.name in own] == []


def test_a_stop_with_a_running_call_is_not_said_to_leave_nothing() -> None:
    """Its record is left, too, and named when the app has stopped."""
    text = events.RecordsLeft(0, 0, (), 140).sentence()
    assert text.startswith("ehkafka repeats no finished record; ")
