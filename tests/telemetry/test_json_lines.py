"""A log as JSON: one object to a line, whatever a record holds, and an event's own fields in it."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from ehkafka.events import HandlerFailed, StuckReport
from ehkafka.records import TopicPartition
from ehkafka.telemetry.json_lines import BEGIN, JsonLines
from ehkafka.telemetry.log_lines import LogLines


class Kept(logging.Handler):
    """Keeps the lines that it would write."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.lines.append(self.format(record))

    @property
    def last(self) -> dict[str, Any]:
        """The last line, read."""
        # Not even what Python's own reader takes beyond JSON.
        found: dict[str, Any] = json.loads(self.lines[-1], parse_constant=pytest.fail)
        return found


@pytest.fixture
def kept() -> Kept:
    """Return a handler that writes JSON."""
    return Kept(JsonLines())


@pytest.fixture
def logger(kept: Kept) -> logging.Logger:
    """Return a logger with that handler alone."""
    logger = logging.getLogger("shop")
    logger.setLevel(logging.DEBUG)
    logger.propagate, logger.handlers = False, [kept]
    return logger


def failed(error: Exception) -> Exception:
    """Return an error that was raised."""
    try:
        raise error
    except type(error) as raised:
        return raised


def test_a_line_has_time_level_logger_and_message(kept: Kept, logger: logging.Logger) -> None:
    """In UTC, to the millisecond, in this order; more that was given stands next to it."""
    logger.warning("%d left", 3, extra={"order": 7, "level": "high", "parts": ("a", TopicPartition("t", 1))})
    assert kept.lines[-1].startswith(BEGIN)
    line = kept.last
    assert list(line)[:4] == ["time", "level", "logger", "message"]
    assert line["time"].endswith("Z")
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "shop", "3 left")
    assert (line["order"], line["level_"], line["parts"]) == (7, "high", ["a", ["t", 1]])


def test_an_event_has_its_fields_and_its_sentence(kept: Kept, logger: logging.Logger) -> None:
    """What the text shows below the sentence is a field, and stands once."""
    lines = LogLines(logger, lambda: 0.0)
    lines.write(StuckReport(5.0, ("t[0]@3",), "thread\nwhere it is"))
    line = kept.last
    assert (line["event"], line["idle_s"], line["running"]) == ("StuckReport", 5.0, ["t[0]@3"])
    assert line["stacks"] == "thread\nwhere it is"
    assert "\n" not in line["message"]
    assert line["message"].startswith("No record finished for 5 s")


def test_an_events_error_has_its_stack(kept: Kept, logger: logging.Logger) -> None:
    """Of the user's code, as in the text."""
    where = TopicPartition("t", 0), 3, "k", 1
    error = failed(ValueError("bad"))
    event = HandlerFailed(*where, "ValueError: bad", "it is held", place="a.py:1", exception=error)
    LogLines(logger, lambda: 0.0).write(event)
    line = kept.last
    assert (line["topic"], line["partition"], line["offset"], line["key"]) == ("t", 0, 3, "k")
    assert "raise error" in line["stack"]
    assert "Traceback" not in line["message"]


def test_an_exception_has_type_text_and_stack(kept: Kept, logger: logging.Logger) -> None:
    """Of any logger."""
    error = failed(KeyError("gone"))
    logger.error("no luck", exc_info=error)
    line = kept.last
    assert line["message"] == "no luck"
    assert (line["exception"]["type"], line["exception"]["text"]) == ("KeyError", "'gone'")
    assert "test_json_lines.py" in line["exception"]["stack"]


def test_whatever_a_record_holds_makes_one_line_of_json(kept: Kept, logger: logging.Logger) -> None:
    """Line ends, control characters, halves of characters, rings, numbers that JSON lacks, broken texts."""

    @dataclass
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    ring: list[Any] = []
    ring.append(ring)
    for extra in (ring, float("nan"), Broken(), {1: {2, 3}}, {(1, 2): 3}, b"\xff", "\x1b[2J\ud800"):
        logger.info("one\ntwo \x9b", extra={"what": extra})
        assert "\n" not in kept.lines[-1]
        assert kept.lines[-1].isascii()
        assert kept.last["message"] == "one\ntwo \x9b"
        assert "what" in kept.last
    assert len(kept.lines) == 7
    kept.emit(logging.LogRecord("shop", logging.INFO, "", 0, "%d", ("no number",), None))
    assert kept.last["message"].startswith("%d ('no number',)")


def test_a_member_has_its_number(logger: logging.Logger) -> None:
    """Among the fields: a number before the line would spoil it."""
    kept = Kept(JsonLines(3))
    logger.addHandler(kept)
    logger.info("here")
    assert kept.last["member"] == 3
    logger.info("stack", stack_info=True)
    assert "test_json_lines" in kept.last["stack_info"]


def test_what_every_record_has_is_no_field_of_this_one(kept: Kept, logger: logging.Logger) -> None:
    """Python's own attributes, of this version too, stay out."""
    logger.info("plain")
    assert list(kept.last) == ["time", "level", "logger", "message"], sys.version
