from __future__ import annotations

import json
import logging

import pytest

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.log_lines import LogLines, fields, sentence
from ehkafka.telemetry.thinning import SUBJECTS_MAX, WINDOW_S
from ehkafka.testing.clock import VirtualClock

READINGS_0 = TopicPartition("readings", 0)
READINGS_1 = TopicPartition("readings", 1)
ALERTS_0 = TopicPartition("alerts", 0)

# One of each kind, and what a reader must find in its line.
EXAMPLES: list[tuple[events.Event, list[str]]] = [
    (events.AppStarted("homes", ("readings", "alerts")), ["readings, alerts", "group homes"]),
    (events.AppStopping("SIGTERM", drain=True, deadline_s=25.0), ["SIGTERM", "with a drain", "25 s"]),
    (events.Draining(12.3, 40), ["40 records", "12 s"]),
    (events.AppStopped(4, 17), ["exit code 4", "17 records", "redelivered"]),
    (events.PartitionAssigned(READINGS_0, 3, "offset 17"), ["readings[0]", "epoch 3", "offset 17"]),
    (
        events.PartitionRevoked(READINGS_0, 3, 18, 1, "rebalance"),
        ["readings[0]", "18", "1 record ", "rebalance"],
    ),
    (events.PartitionLost(READINGS_0, 3, 5), ["readings[0]", "epoch 3", "5 records", "another member"]),
    (events.PartitionPaused(READINGS_0, 900, 4096, "home-7"), ["readings[0]", "900", "4096", "home-7"]),
    (events.PartitionResumed(READINGS_0, 1.5), ["readings[0]", "1.500 s"]),
    (
        events.CommitAcknowledged(((READINGS_0, 18), (ALERTS_0, 4)), 0.012),
        ["readings[0] up to 18", "alerts[0] up to 4"],
    ),
    (
        events.CommitFailed((READINGS_0, ALERTS_0), "NOT_COORDINATOR", retriable=True),
        ["readings[0], alerts[0]", "NOT_COORDINATOR", "tries again"],
    ),
    (
        events.HandlerFailed(READINGS_0, 17, "home-7", 2, "ValueError: no unit", "retry in 0.4 s"),
        ["readings[0]@17", "home-7", "attempt 2", "ValueError: no unit", "retry in 0.4 s"],
    ),
    (events.StaleResult(READINGS_0, 3, 2), ["readings[0]", "epoch 3", "2 records", "redelivered"]),
    (
        events.ConnectionTrouble("_TRANSPORT", "broker down", fatal=False),
        ["_TRANSPORT", "broker down", "check"],
    ),
    (
        events.ClientLogged(logging.WARNING, "MAXPOLL: limit hit"),
        ["librdkafka, warning", "MAXPOLL: limit hit"],
    ),
    (events.UserCodeFailed("on_assigned", "KeyError: 'unit'"), ["on_assigned", "KeyError: 'unit'"]),
    (events.StuckReport(61.0, ("readings[0]@17",), "File handler.py, line 3"), ["61 s", "readings[0]@17"]),
]


class Lines(logging.Handler):
    """Collects log records of a logger of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.logger = logging.Logger("lines", logging.DEBUG)  # noqa: LOG001 - one for each test
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)

    @property
    def suppressed(self) -> list[int]:
        """How many were suppressed before each line."""
        return [vars(record)["suppressed"] for record in self.records]


@pytest.fixture
def clock() -> VirtualClock:
    """Time that a test moves."""
    return VirtualClock()


@pytest.fixture
def seen() -> Lines:
    """Return what reaches the log."""
    return Lines()


@pytest.fixture
def lines(seen: Lines, clock: VirtualClock) -> LogLines:
    """Return the writer under test."""
    return LogLines(seen.logger, clock.now_s)


def commit_failed(*partitions: TopicPartition, error: str = "busy", retriable: bool = True) -> events.Event:
    """Return a refused commit."""
    return events.CommitFailed(partitions or (READINGS_0,), error, retriable)


def handler_failed(offset: int, attempt: int, decision: str) -> events.Event:
    """Return a failed attempt."""
    return events.HandlerFailed(READINGS_0, offset, "home-7", attempt, "ValueError: no unit", decision)


def test_every_kind_of_event_has_a_sentence_and_an_example() -> None:
    """No event is logged as its repr: each class of the catalogue has its own sentence."""
    catalogue = {
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, events.Event) and kind is not events.Event
    }

    assert {type(event) for event, _ in EXAMPLES} == catalogue
    assert all(sentence.dispatch(kind) is not sentence.dispatch(events.Event) for kind in catalogue)


@pytest.mark.parametrize(("event", "parts"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_a_sentence_names_what_its_reader_needs(event: events.Event, parts: list[str]) -> None:
    """Topic, partition, offset, key and next step are in one line that ends as a sentence does."""
    line = sentence(event)

    assert [part for part in parts if part not in line] == []
    assert line.endswith(".")
    assert ".." not in line
    assert "\n" not in line


@pytest.mark.parametrize("event", [event for event, _ in EXAMPLES], ids=lambda value: type(value).__name__)
def test_the_fields_reach_a_structured_logger(event: events.Event, lines: LogLines, seen: Lines) -> None:
    """Logging takes every field (none has a name of its own) and they survive JSON."""
    lines.write(event)

    [record] = seen.records
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
        sentence(events.Event())


def test_text_from_outside_cannot_forge_a_line() -> None:
    """Line ends and terminal sequences of a key or error are shown as escapes, and it has an end."""
    hostile = events.HandlerFailed(
        READINGS_0, 1, "k\x1b[2J\r\nERROR root: all is lost.", 1, "x" * 5_000, "hold"
    )

    line = sentence(hostile)

    assert r"k\x1b[2J\r\nERROR root: all is lost., attempt" in line
    assert line.isprintable()
    assert len(line) < 1_000


def test_many_partitions_are_named_in_part() -> None:
    """A commit of hundreds of partitions is still a line."""
    many = events.CommitAcknowledged(tuple((TopicPartition("t", n), n) for n in range(300)), 0.1)

    assert sentence(many).endswith("t[9] up to 9 and 290 more in 0.100 s.")


def test_the_stacks_of_a_stuck_report_follow_its_sentence(lines: LogLines, seen: Lines) -> None:
    """Who reads plain text needs the stacks there."""
    lines.write(events.StuckReport(61.0, (), "File handler.py, line 3"))

    assert seen.records[0].getMessage().endswith(".\nFile handler.py, line 3")


def test_a_percent_sign_is_just_text(lines: LogLines, seen: Lines) -> None:
    """The sentence is no format string."""
    lines.write(commit_failed(error="%s of %d"))

    assert "%s of %d" in seen.records[0].getMessage()


def test_a_warning_each_second_for_an_hour_is_logged_each_30_s(
    lines: LogLines, seen: Lines, clock: VirtualClock
) -> None:
    """The first at once, then one per window that says how many were not shown; none is unaccounted for."""
    for _ in range(3_600):
        lines.write(commit_failed())
        clock.advance(1.0)
    lines.write_owed(everything=True)

    assert seen.suppressed == [0, *[29] * 119, 28]
    assert len(seen.records) + sum(seen.suppressed) == 3_600
    assert "(29 more like it since the last such line.)" in seen.records[1].getMessage()
    assert not lines.owes_lines


def test_different_subjects_are_thinned_apart(lines: LogLines, seen: Lines) -> None:
    """A warning never hides one about something else."""
    different = [
        commit_failed(READINGS_0),
        commit_failed(ALERTS_0),
        commit_failed(READINGS_0, retriable=False),
        events.PartitionLost(READINGS_0, 3, 0),
        events.PartitionLost(READINGS_1, 3, 0),
        events.StaleResult(READINGS_0, 3, 1),
        events.ConnectionTrouble("_TRANSPORT", "down", fatal=False),
        events.ConnectionTrouble("_TRANSPORT", "down", fatal=True),
        events.UserCodeFailed("open", "x"),
        events.UserCodeFailed("on_lost", "x"),
    ]
    for event in different * 2:
        lines.write(event)

    assert len(seen.records) == len(different)


def test_other_partitions_and_numbers_in_an_error_are_still_a_repetition(
    lines: LogLines, seen: Lines
) -> None:
    """What varies from one commit to the next does not defeat the thinning."""
    lines.write(commit_failed(READINGS_0, error="broker 1, 17 ms"))
    lines.write(commit_failed(READINGS_1, error="broker 2, 23 ms"))

    assert len(seen.records) == 1


def test_the_final_decision_on_a_record_is_always_logged(lines: LogLines, seen: Lines) -> None:
    """Its retries are thinned, its end and the failures of other records are not."""
    for attempt in range(1, 5):
        lines.write(handler_failed(17, attempt, f"retry in {0.2 * attempt:.1f} s"))
    lines.write(handler_failed(18, 1, "retry in 0.2 s"))
    lines.write(handler_failed(17, 5, "skip"))

    assert [(vars(record)["offset"], vars(record)["attempt"]) for record in seen.records] == [
        (17, 1),
        (18, 1),
        (17, 5),
    ]


def test_what_is_no_warning_is_never_thinned(lines: LogLines, seen: Lines) -> None:
    """Assignments are told one by one."""
    for _ in range(3):
        lines.write(events.PartitionAssigned(READINGS_0, 1, "earliest"))

    assert len(seen.records) == 3


def test_any_later_event_brings_the_owed_line(lines: LogLines, seen: Lines, clock: VirtualClock) -> None:
    """A series that ended is told with its last warning, once its window is over."""
    for error in ("first", "second", "last"):
        lines.write(commit_failed(error=error))
    clock.advance(WINDOW_S)
    lines.write(events.PartitionResumed(READINGS_0, 1.0))

    owed = seen.records[-1]
    assert "last" in owed.getMessage()
    assert seen.suppressed == [0, 0, 1]
    assert not lines.owes_lines


def test_an_owed_line_opens_a_window_too(lines: LogLines, seen: Lines, clock: VirtualClock) -> None:
    """The rate holds for lines that were brought by other events or by the clock."""
    for _ in range(2):
        lines.write(commit_failed())
    clock.advance(WINDOW_S)
    lines.write_owed()
    lines.write(commit_failed())

    assert len(seen.records) == 2
    assert lines.owes_lines


def test_thinning_remembers_a_bounded_number_of_subjects(lines: LogLines, seen: Lines) -> None:
    """A flood of failing records cannot grow it; what a forgotten subject owes is told first."""
    for _ in range(3):
        lines.write(handler_failed(0, 1, "retry"))
    for offset in range(1, 3 * SUBJECTS_MAX):
        lines.write(handler_failed(offset, 1, "retry"))

    assert len(lines._thinning._windows) <= SUBJECTS_MAX
    assert not lines.owes_lines
    assert len(seen.records) + sum(seen.suppressed) == 3 * SUBJECTS_MAX + 2


def test_a_level_that_nobody_reads_costs_no_sentence(seen: Lines, lines: LogLines) -> None:
    """Debug lines are off in production; an event without a sentence proves that none was made."""
    seen.logger.setLevel(logging.WARNING)

    lines.write(events.Event())

    assert seen.records == []
