"""What a user's functions are, return and raise beside the handler: nothing of it loses a record silently."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import DeadLetterFailed, HandlerFailed, UserCodeFailed


async def _async(*_anything: Any) -> None:
    """Stand for any function that would have to be awaited."""


def _generator(*_anything: Any) -> Any:
    yield 1


def _fails(record: Any) -> None:
    if record.key() == b"bad":
        raise ValueError("no luck")


def ended(app: ehkafka.App) -> None:
    """Wait until an app ends by itself and raise what it ended with."""
    assert app.wait(15.0)
    app.stop()


@pytest.mark.parametrize("function", [_async, functools.partial(_async, 1), _generator])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (lambda f: {"retry": f}, "retry="),
        (lambda f: {"order_by": f}, "order_by="),
        (lambda f: {"on_failure": ehkafka.DeadLetter(f)}, r"on_failure=DeadLetter\("),
    ],
)
def test_a_function_that_nobody_would_run_is_refused_where_it_is_given(
    lab: Any, recorder: Any, function: Any, options: Any, words: str
) -> None:
    """Unawaited, a letter would count as safe, and each record would have an order of its own."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=f"{words}.*plain function"):
        lab.app(recorder, **options(function))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_failure": ""}, r"on_failure=''; use Stop\(\)"),
        ({"on_failure": False}, r"on_failure=False; use Stop\(\)"),
        ({"on_failure": 0}, r"on_failure=0; use Stop\(\)"),
        ({"raw": "no"}, "raw='no'; use True or False"),
    ],
)
def test_a_value_of_another_kind_is_refused_and_not_taken_for_the_default(
    lab: Any, recorder: Any, options: dict[str, Any], words: str
) -> None:
    """What Python takes for false is no policy, and what it takes for true no choice."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
        lab.app().handler("t", **options)(recorder)


def test_a_letter_function_that_only_makes_a_coroutine_has_saved_nothing(
    lab: Any, events: Any, wait_for: Any, stays: Any
) -> None:
    """Found when it is called: reported with the fix, tried again, nothing committed past the record."""
    lab.produce("bad x")
    app = lab.app(_fails, on_failure=ehkafka.DeadLetter(lambda letter: _async(letter.offset)))
    app.add_hook(events)
    app.start()
    (failed, *_) = wait_for(lambda: events.of(DeadLetterFailed))
    assert "coroutine that is never run" in failed.error
    # The first commit, of where it begins, may not have been written yet.
    stays(lambda: not lab.committed() and app.snapshot().dead_lettered_records == 0, for_s=0.2)
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
    app.add_hook(events)
    started_s = time.monotonic()
    app.start()
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="retry function tried to end the process"):
        ended(app)
    assert time.monotonic() - started_s < 8.0  # not the whole time that a stop may take
    assert [e.where for e in events.of(UserCodeFailed)] == ["retry"]
    assert [e.decision for e in events.of(HandlerFailed)] == ["the app stops"]
    assert lab.committed() == 0


def test_an_answer_of_on_error_that_means_nothing_is_reported(lab: Any, events: Any, wait_for: Any) -> None:
    """The policy decides, and the log says what may be answered."""
    lab.produce("bad x")
    app = lab.app(_fails, on_failure=ehkafka.Skip())
    app.on_error(lambda *_asked: "stopp")
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 2)
    (reported,) = events.of(UserCodeFailed)
    assert reported.where == "on_error"
    assert all(word in reported.error for word in ("'stopp'", "'continue'", "'stop'", "None"))
    app.stop()


def _middleware_that_only_makes_a_coroutine(record: Any, call_next: Any) -> Any:
    async def around() -> None:
        call_next(record)

    return around()


@pytest.mark.parametrize("kind", ["class", "batch"])
def test_a_middleware_that_only_makes_a_coroutine_has_handled_nothing(lab: Any, kind: str) -> None:
    """A plain function that returns a coroutine is found when it is called, around every kind of handler."""
    lab.produce("a b")
    ran: list[Any] = []

    class Process:
        """A class handler."""

        def process(self, record: Any) -> None:
            """Handle a record."""
            ran.append(record)

    app = lab.app()
    app.use(_middleware_that_only_makes_a_coroutine)
    if kind == "class":
        app.handler("t")(Process)
    else:
        app.batch_handler("t", wait_s_max=0.01)(ran.append)
    app.start()
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="coroutine that is never run"):
        ended(app)
    assert (ran, lab.committed()) == ([], 0)


def test_an_async_batch_handler_that_only_makes_a_coroutine_has_handled_nothing(lab: Any) -> None:
    """What an `async def` returns may be a coroutine, too, that nobody awaits."""
    lab.produce("a")

    async def store(batch: Any) -> Any:
        return _async(batch)

    app = lab.app()
    app.batch_handler("t", wait_s_max=0.01)(store)
    app.start()
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="coroutine that is never run"):
        ended(app)
    assert lab.committed() == 0


@pytest.mark.parametrize("after", ["hold_key", "divert_key"])
def test_records_without_a_key_leave_nothing_to_remember(
    lab: Any, monkeypatch: pytest.MonkeyPatch, wait_for: Any, after: Any
) -> None:
    """Each has a key of its own that never comes again, so none fills the memory of keys or is held."""
    monkeypatch.setattr("ehkafka.lanes.waiting.AFTER_LETTER_MAX", 2)
    lab.produce("- - - - - -")

    def fails(_record: Any) -> None:
        raise ValueError("no luck")

    app = lab.app(fails, on_failure=ehkafka.DeadLetter(lambda _letter: None, after=after))
    app.start()
    wait_for(lambda: lab.committed() == 6)
    app.stop()


def test_a_raw_handler_that_replaces_values_does_not_fill_the_backlog(lab: Any, wait_for: Any) -> None:
    """Sizes are counted as they come and go; what differs is forgotten whenever nothing is left."""
    lab.broker.produce("t", [(b"%d" % number, b"x" * 1_000) for number in range(400)], partition=0)
    app = lab.app(lambda message: message.set_value(b""), raw=True, backlog_bytes_max=50_000)
    app.start()
    wait_for(lambda: lab.committed() == 400)
    app.stop()
