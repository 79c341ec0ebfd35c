"""One log line for the partitions of one assignment, and none held back for long."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.bus import EventBus
from ehkafka.telemetry.log_lines import GATHER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from ehkafka.telemetry.log_lines import LogLines


def reading(number: int) -> TopicPartition:
    """Return a partition's name."""
    return TopicPartition("readings", number)


def assigned(number: int, position: str = "earliest") -> events.Event:
    """Return an assignment's event."""
    return events.PartitionAssigned(reading(number), 1, position)


def texts(logged: Any) -> list[str]:
    """Return the lines."""
    return [record.getMessage() for record in logged.records]


def test_the_partitions_of_an_assignment_share_a_line(lines: LogLines, logged: Any) -> None:
    """16 partitions that begin alike are one short line, with the next event of another kind."""
    for number in range(16):
        lines.write(assigned(number))
    assert logged.records == []
    lines.write(events.AppStopped(0, 0))

    assert texts(logged)[0] == "Assigned readings[0-15], each read from earliest."
    assert texts(logged)[1].startswith("Stopped")


def test_positions_that_differ_are_reported_as_far_as_a_line_goes(lines: LogLines, logged: Any) -> None:
    """Each partition with its own; all of them are in the fields."""
    for number in range(12):
        lines.write(assigned(number, str(number * 100)))
    lines.write_owed()

    (line,) = texts(logged)
    assert line.startswith("Assigned readings[0-11]: readings[0] from 0, readings[1] from 100, ")
    assert line.endswith("readings[9] from 900 and 2 more.")
    fields = vars(logged.records[0])
    assert fields["event"] == "PartitionAssigned"
    assert fields["partitions"][11] == "readings[11]"
    assert fields["positions"][11] == "1100"
    assert json.dumps([fields["epochs"], fields["positions"]])


def test_what_is_lost_at_once_shares_a_line(lines: LogLines, logged: Any) -> None:
    """A member that was cut off loses all of its partitions: one warning, not one for each."""
    for number in range(8):
        lines.write(events.PartitionLost(reading(number), 1, 2 * (number < 3)))
    lines.write_owed()

    (line,) = texts(logged)
    assert line.startswith("Lost readings[0-7]: the group continued without this member")
    assert "6 records left for the next owner (another member may already have them)." in line
    assert line.endswith("#the-group-continued-without-this-member.")
    assert logged.records[0].levelno == logging.WARNING
    assert vars(logged.records[0])["returned_records"] == [2, 2, 2, 0, 0, 0, 0, 0]
    assert "silence_s" in vars(logged.records[0])


def test_what_is_given_back_is_summed_up(lines: LogLines, logged: Any) -> None:
    """Commits by partition, returned records together; another reason has a line of its own."""
    lines.write(events.PartitionRevoked(reading(0), 1, 18, 2, "revoked"))
    lines.write(events.PartitionRevoked(reading(2), 1, None, 3, "revoked"))
    lines.write(events.PartitionRevoked(reading(3), 1, 7, 0, "stopped"))
    lines.write(events.PartitionRevoked(reading(4), 1, None, 0, "stopped"))
    lines.write_owed()

    assert texts(logged) == [
        (
            "Released readings[0, 2] (revoked): committed readings[0] up to 18; "
            "5 records left for the next owner."
        ),
        "Released readings[3-4] (stopped): committed readings[3] up to 7; no record left.",
    ]


def test_a_level_that_hides_them_gathers_nothing(lines: LogLines, logged: Any) -> None:
    """Nothing is kept for a line that is not written."""
    logged.logger.setLevel(logging.WARNING)
    lines.write(assigned(0))

    assert lines.gathered_events == 0
    assert lines.patience_s is None


def test_a_line_is_written_though_no_other_event_comes(
    log: pytest.LogCaptureFixture, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    """The telemetry thread waits a moment for more partitions, not for ever."""
    bus = EventBus()
    bus.start()
    bus.emit(assigned(0))
    bus.emit(assigned(1))
    wait_until(lambda: log.messages == ["Assigned readings[0-1], each read from earliest."])
    assert bus.close(10.0) == 0
    assert GATHER_S < 0.2


def test_a_close_writes_what_was_gathered(log: pytest.LogCaptureFixture) -> None:
    """The last partitions given back are in the log when the app has ended."""
    bus = EventBus()
    bus.start()
    for number in range(3):
        bus.emit(events.PartitionRevoked(reading(number), 1, None, 0, "stopped"))
    assert bus.close(10.0) == 0
    assert log.messages == ["Released readings[0-2] (stopped): nothing committed; no record left."]
