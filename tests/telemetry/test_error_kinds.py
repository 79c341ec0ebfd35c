"""The stack of an error comes with the first line of its kind; later ones are counted."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

from ehkafka import events
from ehkafka.events.event import raised
from ehkafka.records import TopicPartition
from ehkafka.telemetry import log_lines
from ehkafka.telemetry.bus import QUEUED_EXCEPTIONS_MAX, EventBus
from ehkafka.telemetry.thinning import WINDOW_S

if TYPE_CHECKING:
    import pytest

    from ehkafka.telemetry.log_lines import LogLines
    from tests.kit.clock import VirtualClock

READINGS_0 = TopicPartition("readings", 0)


class Problem(Exception):  # noqa: N818 - it can be referred to weakly, as the built-in ones cannot
    """An error of the user's."""


def fails(kind: type[Exception], *, elsewhere: bool) -> None:
    """Raise in one of two lines."""
    if elsewhere:
        raise kind("x")
    raise kind("x")


def caught(kind: type[Exception] = Problem, *, elsewhere: bool = False) -> Exception:
    """Return an error that was raised."""
    try:
        fails(kind, elsewhere=elsewhere)
    except kind as error:
        return error
    raise AssertionError("it raised nothing")


def failed(offset: int, error: Exception) -> events.HandlerFailed:
    """Return what tells of it."""
    return events.HandlerFailed(READINGS_0, offset, "k", 1, "ValueError: x", "hold", **raised(error))


def test_a_kind_is_a_type_and_a_line(lines: LogLines, logged: Any) -> None:
    """Another type at the same line shows its stack, and so does the same type at another line."""
    errors = [caught(), caught(), caught(KeyError), caught(elsewhere=True), caught()]
    for offset, error in enumerate(errors):
        lines.write(failed(offset, error))

    texts = [record.getMessage() for record in logged.records]
    assert ["Traceback" in text for text in texts] == [True, False, True, True, False]
    assert "(3 such errors so far; the line of the first one has the stack.)" in texts[4]
    assert "raise kind" in vars(logged.records[0])["stack"]
    assert "exception" not in vars(logged.records[0])


def test_kinds_are_forgotten_before_they_fill_the_memory(
    lines: LogLines, logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than there is room for, the one not seen for longest shows its stack again."""
    monkeypatch.setattr(log_lines, "KINDS_MAX", 2)
    kinds = [ValueError, KeyError, ValueError, OSError, ValueError, KeyError]
    for offset, kind in enumerate(kinds):
        lines.write(failed(offset, caught(kind)))

    shown = ["Traceback" in record.getMessage() for record in logged.records]
    assert shown == [True, True, False, True, False, True]


def test_an_error_without_a_stack_is_a_line(lines: LogLines, logged: Any) -> None:
    """It was never raised: given to `batch.fail`, or to a deferred record."""
    lines.write(failed(1, ValueError("x")))
    lines.write(failed(2, ValueError("x")))

    assert [record.getMessage().count("\n") for record in logged.records] == [0, 0]
    assert "such errors" not in logged.records[1].getMessage()


def test_a_line_that_is_put_off_keeps_no_frame(lines: LogLines, clock: VirtualClock, logged: Any) -> None:
    """Thinned warnings wait for half a minute; the records in their frames must not."""
    first, second = caught(), caught()
    gone = weakref.ref(second)
    lines.write(events.RecordRetried(READINGS_0, 1, "k", 1, "ValueError: x", 1.0, **raised(first)))
    lines.write(events.RecordRetried(READINGS_0, 2, "k", 1, "ValueError: x", 1.0, **raised(second)))
    del second
    gc.collect()

    assert gone() is None
    clock.advance(WINDOW_S)
    lines.write_owed()
    assert "readings[0]@2" in logged.records[1].getMessage()


def test_a_queue_that_is_not_emptied_keeps_a_bounded_number_of_errors() -> None:
    """Each holds its frames, and with them a record; the event says what it can without."""
    bus = EventBus()
    kept = []
    for offset in range(QUEUED_EXCEPTIONS_MAX + 100):
        error = caught()
        kept.append(weakref.ref(error))
        bus.emit(failed(offset, error))
    del error
    gc.collect()

    assert sum(ref() is not None for ref in kept) <= QUEUED_EXCEPTIONS_MAX + 1
    assert bus.counters_snapshot()["HandlerFailed"] == len(kept)
    bus.close(0.0)
