from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.log_lines import LogLines, fields
from ehkafka.wording.answers import with_answer
from tests.kit.events import event_kinds
from tests.prose.messages import made
from tests.telemetry.conftest import Lines

if TYPE_CHECKING:
    from tests.kit.clock import VirtualClock

READINGS_0 = TopicPartition("readings", 0)
READINGS_1 = TopicPartition("readings", 1)
# Each kind with all of its fields, and with those that it always has; docs/reference/messages.md has them.
KINDS = sorted(event_kinds(), key=lambda kind: kind.__name__)
EVENTS = [made(kind, is_sparse=is_sparse) for kind in KINDS for is_sparse in (False, True)]

# Sentences that depend on a value, and what a reader must find in them.
GAP: dict[str, Any] = {"log_start": 10, "log_end": 12}
NEW_LOG: dict[str, Any] = {"log_start": 0, "log_end": 800}
HUB = "home.servicebus.windows.net"
DEPENDING: list[tuple[events.Event, list[str]]] = [
    (events.BatchesFinished(1, 1, 0.0, None), ["1 batch with 1 record in 0 s."]),
    (
        events.GroupReset("homes", ("readings",), 8, "june"),
        ["in 8 partitions of readings", "with reset=june does not repeat"],
    ),
    (events.GroupReset("homes", ("readings",), 8, None), ["with reset=True resets the group again."]),
    (
        events.OutputRefused(READINGS_0, 7, "alerts", 2, "X", None, "it is skipped"),
        ["it is skipped. Nothing"],
    ),
    (events.OutputRefused(READINGS_0, 7, "alerts", 2, "X", 1.0, ""), ["the output is sent again in 1 s"]),
    (
        events.OffsetGap(READINGS_0, 3, **GAP, lost_records=7, action="earliest", resumed_at=10),
        ["readings[0]@3", "is gone", "10 to 12", "7 records will not be read", "continues at offset 10"],
    ),
    (
        events.OffsetGap(READINGS_0, 30, **GAP, lost_records=0, action="stop", resumed_at=None),
        ["readings[0]@30", "18 beyond the end", "Nothing is skipped", "reading stops"],
    ),
    (
        events.OffsetGap(READINGS_0, 11, **GAP, lost_records=1, action="latest", resumed_at=12),
        ["readings[0]@11", "holds another record now", "1 record will not be read", "continues at offset 12"],
    ),
    (
        events.LogReplaced(READINGS_0, 300, "X", **NEW_LOG, lost_records=0, action="earliest", resumed_at=0),
        ["readings[0] has a new log", "Position 300", "0 to 800", "continues at offset 0"],
    ),
    (
        events.LogReplaced(READINGS_0, 9, "X", **NEW_LOG, lost_records=800, action="latest", resumed_at=800),
        ["800 records of the new log will not be read", "continues at offset 800", "on_out_of_range=latest"],
    ),
    (
        events.LogReplaced(READINGS_0, 3, "X", **NEW_LOG, lost_records=0, action="stop", resumed_at=None),
        ["No record of the new log is skipped", "reading stops"],
    ),
    (events.HandlerResized("store", 4, 9, is_auto=True), ["9 workers now", '(workers="auto").']),
    (
        events.ConnectionProblem("_RESOLVE", "_RESOLVE (no such host): check it", fatal=False),
        [": _RESOLVE (no"],
    ),
    (events.TokenRefreshFailed(HUB, 1, "E (no)", 240.0, 2.0), ["after a failed attempt", "another 240 s"]),
    (events.TokenRefreshFailed(HUB, 3, "E (no)", 0.0, 1.5), ["3 failed attempts", "No token is valid now"]),
]


def test_every_kind_of_event_has_a_sentence() -> None:
    """No event is logged as its repr: each class of the catalogue has its own sentence."""
    assert [kind for kind in KINDS if kind.sentence is events.Event.sentence] == []


@pytest.mark.parametrize(("event", "parts"), DEPENDING, ids=lambda value: type(value).__name__)
def test_a_sentence_names_what_its_reader_needs(event: events.Event, parts: list[str]) -> None:
    """Topic, partition, offset, key and next step."""
    assert [part for part in parts if part not in event.sentence()] == []


def test_an_event_is_one_sentence_whose_fields_reach_a_structured_logger(clock: VirtualClock) -> None:
    """One line that ends as a sentence does; logging takes every field, and all of them survive JSON."""
    for event in EVENTS:
        line = event.sentence()
        assert line.endswith(".")
        assert line.isprintable()
        logged = Lines()
        lines = LogLines(logged.logger, clock.now_s)
        lines.write(event)
        lines.write_owed()

        [record] = logged.records
        named = fields(event)
        assert record.levelno == event.level
        assert named["event"] == type(event).__name__
        assert json.loads(json.dumps(named)) == {name: vars(record)[name] for name in named}


def test_a_partition_becomes_topic_and_partition() -> None:
    """Structured logs can be filtered by topic and by partition number."""
    assert fields(events.StaleResult(READINGS_1, 3, 2)) == {
        "event": "StaleResult",
        "topic": "readings",
        "partition": 1,
        "epoch": 3,
        "records": 2,
    }


def test_a_kind_without_a_sentence_is_refused() -> None:
    """A missing sentence is an error, not a repr in the log."""
    with pytest.raises(NotImplementedError, match="Event has no sentence"):
        events.Event().sentence()


def test_text_from_outside_cannot_forge_a_line() -> None:
    """Line ends and terminal sequences of a key or error are shown as escapes, and it has an end."""
    hostile = events.HandlerFailed(
        READINGS_0, 1, "k\x1b[2J\r\nERROR root: all is lost.", 1, "x" * 5_000, "hold"
    )

    line = hostile.sentence()

    assert r"k\x1b[2J\r\nERROR root: all is lost., attempt" in line
    assert line.isprintable()
    assert len(line) < 1_000


def test_many_partitions_are_named_in_part() -> None:
    """A commit of hundreds of partitions is still a line."""
    many = events.CommitAcknowledged(tuple((TopicPartition("t", n), n) for n in range(300)), 0.1)

    assert many.sentence().endswith("t[9] up to 9 and 290 more in 0.1 s.")


STACK = "File handler.py, line 3"
STUCK = [
    events.StuckReport(61.0, (), STACK),
    events.AttemptOverdue(READINGS_0, 17, "home-1", 2, "store", 31.3, 30.0, STACK),
]


@pytest.mark.parametrize("event", STUCK, ids=lambda event: type(event).__name__)
def test_stacks_follow_their_sentence(event: events.Event, lines: LogLines, logged: Any) -> None:
    """Who reads plain text needs them there: where a thread hangs is what the line is for."""
    lines.write(event)

    assert logged.records[0].getMessage() == f"{with_answer(event.sentence(), event)}\n{STACK}"


def test_a_percent_sign_is_just_text(lines: LogLines, logged: Any) -> None:
    """The sentence is no format string."""
    lines.write(events.CommitFailed((READINGS_0,), "%s of %d", retriable=True))

    assert "%s of %d" in logged.records[0].getMessage()


def test_a_level_that_is_off_costs_no_sentence(logged: Any, lines: LogLines) -> None:
    """Debug lines are off in production; an event without a sentence proves that none was made."""
    logged.logger.setLevel(logging.WARNING)

    lines.write(events.Event())

    assert logged.records == []
