"""What a user's functions are, return and raise beside the handler: nothing of it loses a record silently."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import DeadLetterFailed, HandlerFailed, UserCodeFailed
from tests.kit.waiting import must_stay, wait_until


async def _async(*_anything: Any) -> None:
    """Stand for any function that would have to be awaited."""


def _fails(record: Any) -> None:
    if record.key() == b"bad":
        raise ValueError("no luck")


def ended(app: ehkafka.App) -> None:
    """Wait until an app ends by itself and raise what it ended with."""
    assert app.wait(15.0)
    app.stop()


def test_a_letter_function_that_only_makes_a_coroutine_has_saved_nothing(lab: Any, events: Any) -> None:
    """Found when it is called: reported with the fix, tried again, nothing committed past the record."""
    lab.produce("bad x")
    app = lab.start(_fails, on_failure=ehkafka.DeadLetter(lambda letter: _async(letter.offset)))
    (failed, *_) = wait_until(lambda: events.of(DeadLetterFailed))
    assert "coroutine that is never run" in failed.error
    # The first commit, of where it begins, may not have been written yet.
    must_stay(lambda: not lab.committed() and app.snapshot().dead_lettered_records == 0, for_s=0.2)
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(timeout_s=0.1)


@pytest.mark.parametrize(
    "wish", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
def test_an_exit_in_the_retry_function_stops_the_app_in_order(lab: Any, events: Any, wish: Any) -> None:
    """Reported as the user's function; at once, as a handler's failure, and nothing is committed past it."""
    lab.produce("bad")

    def leave(*_asked: Any) -> float:
        raise wish

    app = lab.app(_fails, retry=leave, on_failure=ehkafka.Skip())
    started_s = time.monotonic()
    app.start()
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="retry function tried to end the process"):
        ended(app)
    assert time.monotonic() - started_s < 8.0  # not the whole time that a stop may take
    assert [e.where for e in events.of(UserCodeFailed)] == ["retry"]
    assert [e.decision for e in events.of(HandlerFailed)] == ["the app stops"]
    assert lab.committed() == 0


def test_an_answer_of_on_error_that_means_nothing_is_reported(lab: Any, events: Any) -> None:
    """The policy decides, and the log says what may be answered."""
    lab.produce("bad x")
    app = lab.app(_fails, on_failure=ehkafka.Skip())
    app.on_error(lambda *_asked: "stopp")
    app.start()
    wait_until(lambda: lab.committed() == 2)
    (reported,) = events.of(UserCodeFailed)
    assert reported.where == "on_error"
    assert all(word in reported.error for word in ("'stopp'", "'continue'", "'stop'", "None"))


@pytest.mark.parametrize("after", ["hold_key", "divert_key"])
def test_records_without_a_key_leave_nothing_to_remember(
    lab: Any, monkeypatch: pytest.MonkeyPatch, after: Any
) -> None:
    """Each has a key of its own that never comes again, so none fills the memory of keys or is held."""
    monkeypatch.setattr("ehkafka.lanes.waiting.AFTER_LETTER_MAX", 2)
    lab.produce("- - - - - -")

    def fails(_record: Any) -> None:
        raise ValueError("no luck")

    lab.start(fails, on_failure=ehkafka.DeadLetter(lambda _letter: None, after=after))
    wait_until(lambda: lab.committed() == 6)


def test_a_raw_handler_that_replaces_values_does_not_fill_the_backlog(lab: Any) -> None:
    """Sizes are counted as they come and go; what differs is forgotten whenever nothing is left."""
    lab.broker.produce("t", [(b"%d" % number, b"x" * 1_000) for number in range(400)], partition=0)
    lab.start(lambda message: message.set_value(b""), raw=True, backlog_bytes_max=50_000)
    wait_until(lambda: lab.committed() == 400)
