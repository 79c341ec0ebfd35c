"""User code at its worst: exits, keys that cannot be compared, functions that are never run."""

from __future__ import annotations

import asyncio
import copy
import sys
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import DeadLetterFailed, HandlerFailed, UserCodeFailed
from tests.contract.conftest import ends_with
from tests.kit.waiting import must_stay, wait_until


class Incomparable:
    """A key that cannot be compared with another, and has no text."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("cannot be compared")

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def leave(*_arguments: Any) -> None:
    """Ask the interpreter to exit."""
    sys.exit(3)


def no_table(*_arguments: Any) -> None:
    """Fail where something is to be prepared."""
    raise ArithmeticError("no table")


class OpensNothing:
    """A class handler that fails at its partition."""

    open = no_table

    def process(self, record: Any) -> None:
        """Handle a record."""
        raise AssertionError(f"{record} was handled")


@pytest.mark.parametrize(
    ("hook", "function", "words"),
    [
        ("on_assigned", no_table, r"opening t\[0\] failed: ArithmeticError: no table"),
        ("open", None, r"opening t\[0\] failed: ArithmeticError: no table"),
        # Without its hook thread no partition would ever open.
        ("on_assigned", leave, "opening.*SystemExit: 3"),
        ("on_idle", leave, "on_idle.*SystemExit: 3"),
    ],
)
def test_a_hook_that_prepares_a_partition_and_fails_ends_the_app_before_any_record(
    lab: Any, recorder: Any, hook: str, function: Any, words: str
) -> None:
    """What it was to prepare is missing; nothing is handled or committed. So does an exit in any hook."""
    lab.produce("" if hook == "on_idle" else "a b")
    app = lab.app(OpensNothing if hook == "open" else recorder, idle_s=0.1)
    if function is not None:
        getattr(app, hook)(function)
    app.start()
    ends_with(app, ehkafka.EhkafkaError, words)
    assert recorder.started == []
    assert lab.committed() in (None, 0)


def raising(error: BaseException) -> Any:
    """Return an order function for which one record is the last."""

    def order_by(record: Any) -> Any:
        if record.offset() == 1:
            raise error
        return record.key()

    return order_by


@pytest.mark.parametrize("scope", ["partition", "handler"])
@pytest.mark.parametrize(
    ("order_by", "policy", "words"),
    [
        (raising(KeyError("no customer")), ehkafka.Stop(), r"t\[0\]@1.*KeyError"),
        (lambda record: {"unhashable": record.key()}, ehkafka.Stop(), r"t\[0\]@0.*TypeError"),
        (
            lambda record: Incomparable(record.key()),
            ehkafka.Stop(),
            r"t\[0\]@1, key \(order_by failed\).*cannot be compared",
        ),
        # No policy takes an exit, and no thread of ours dies of it.
        *(
            (raising(kind(3)), ehkafka.Skip(), f"{kind.__name__}: 3")
            for kind in (SystemExit, KeyboardInterrupt)
        ),
    ],
)
def test_an_order_function_that_fails_is_its_records_failure(
    lab: Any, recorder: Any, order_by: Any, policy: Any, words: str, scope: str
) -> None:
    """It is neither handled nor committed, and the app ends as with a failing handler."""
    if scope == "handler":
        lab.checker_options = {"lane_scope": lambda _partition: "one handler"}
    gate = recorder.block(lambda record: record.offset() == 0)
    lab.produce("a a b")
    app = lab.start(recorder, order_by=order_by, on_failure=policy, scope=scope)
    threading.Timer(0.3, gate.set).start()
    ends_with(app, ehkafka.errors.HandlerFailedError, f"Handler 'Recorder' failed at .*{words}")
    assert 1 not in recorder.offsets()
    assert lab.committed() in (None, 0, 1)


async def later(_given: Any) -> None:
    """Handle nothing, unless it is awaited."""


def makes_one(given: Any) -> Any:
    """Seem to handle a record, as an `async def` behind a plain decorator."""
    return later(given)


async def forgets_to_await(given: Any) -> Any:
    """Have handled nothing either."""
    return later(given)


class MakesOne:
    """Does it for each partition."""

    def process(self, record: Any) -> Any:
        """Seem to handle a record."""
        return later(record)


def swallows(record: Any, call_next: Any) -> None:
    """Let what comes back from the handler go."""
    call_next(record)


def wraps_in_one(record: Any, call_next: Any) -> Any:
    """Seem to call the handler."""

    async def around() -> None:
        call_next(record)

    return around()


BATCH = {"wait_s_max": 0.01}


@pytest.mark.parametrize(
    ("handler", "options", "middleware"),
    [
        (makes_one, {}, None),
        (makes_one, {"raw": True}, None),
        (MakesOne, {}, None),
        (makes_one, {}, swallows),
        (makes_one, {"raw": True}, swallows),
        (MakesOne, {}, wraps_in_one),
        (print, BATCH, wraps_in_one),
        (forgets_to_await, {}, None),
        (forgets_to_await, BATCH, None),
    ],
)
def test_a_coroutine_that_is_never_run_is_a_failure_and_no_finished_record(
    lab: Any, handler: Any, options: dict[str, Any], middleware: Any
) -> None:
    """It cannot be seen before it is called, in a handler of any kind or around it; the record stays."""
    lab.produce("a")
    app = lab.app(handler, **options)
    if middleware is not None:
        app.use(middleware)
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, "TypeError: .*coroutine")
    assert lab.committed() in (None, 0)


def test_a_record_may_be_copied(lab: Any, recorder: Any) -> None:
    """`copy.copy` gives a record of the same message and attempt."""
    lab.produce("a")
    app = lab.start(recorder)
    wait_until(lambda: recorder.count == 1)
    app.stop()
    (record,) = recorder.records
    copied = copy.copy(record)
    assert (copied.where, copied.value(), copied.attempt) == ("t[0]@0", b"x", 1)


@pytest.mark.parametrize("is_batch", [False, True])
def test_an_async_handler_that_stops_its_loop_is_named(lab: Any, *, is_batch: bool) -> None:
    """It ends the app as a failing handler does, and waits for no call: no defect of ours."""

    async def stops(_record: Any) -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)

    lab.produce("a")
    app = lab.app()
    app.batch_handler("t", wait_s_max=0.01)(stops) if is_batch else app.handler("t")(stops)
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, r"handler 'stops' .*loop\.stop\(\) was called")


# --- what user functions return ---


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
    assert "coroutine that was never run" in failed.error
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
