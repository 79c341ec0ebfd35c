"""User code at its worst: exits, errors without a text, keys that cannot be compared, functions never run."""

from __future__ import annotations

import asyncio
import copy
import sys
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import UserCodeFailed
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until


class SpeechlessError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Key:
    """A key of the user's own class; equal keys are comparable only where it is asked for."""

    def __init__(self, name: bytes, *, comparable: bool) -> None:
        self.name = name
        self.comparable = comparable

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        if not self.comparable:
            raise RuntimeError("cannot be compared")
        return isinstance(other, Key) and other.name == self.name

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def leave(*_arguments: Any) -> None:
    """Ask the interpreter to exit."""
    sys.exit(3)


@pytest.mark.parametrize(("hook", "where"), [("on_assigned", "opening"), ("on_idle", "on_idle")])
def test_a_hook_that_exits_ends_the_app_and_does_not_silence_it(
    lab: Any, recorder: Any, hook: str, where: str
) -> None:
    """Without its hook thread no partition would ever open: the app ends and says why."""
    app = lab.app(recorder, idle_s=0.1)
    getattr(app, hook)(leave)
    app.start()
    ends_with(app, ehkafka.EhkafkaError, f"{where}.*SystemExit: 3")


def test_an_on_error_that_exits_stops_the_app_as_if_it_had_said_so(
    lab: Any, recorder: Any, events: Any
) -> None:
    """The handler's error ends the app at once, not the worker that asked."""
    recorder.fail_at(0)
    lab.produce("a")
    app = lab.app(recorder, on_failure=ehkafka.Hold())
    app.on_error(leave)
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, "ValueError: no luck with 0")
    assert [event.where for event in events.of(UserCodeFailed)] == ["on_error"]


def test_an_error_without_a_text_takes_the_failure_path(lab: Any, recorder: Any) -> None:
    """Its type is reported, the worker lives, the app stops in good order."""

    def fail(_record: Any) -> None:
        raise SpeechlessError

    recorder.work = fail
    lab.produce("a")
    app = lab.start(recorder)
    ends_with(
        app,
        ehkafka.errors.HandlerFailedError,
        r"SpeechlessError \(its text could not be made: RuntimeError\)",
    )


def test_a_key_without_a_text_is_shown_by_its_type(lab: Any, recorder: Any) -> None:
    """Snapshot and health name the class; nobody dies of it."""
    gate = recorder.block()
    lab.produce("a a")
    app = lab.start(recorder, order_by=lambda record: Key(record.key(), comparable=True))
    wait_until(lambda: app.snapshot().received_records == 2)
    (partition,) = app.snapshot().partitions
    assert partition.oldest.key == "<Key>"
    gate.set()
    wait_until(lambda: lab.committed() == 2)


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_a_key_that_cannot_be_compared_fails_its_record_and_loses_none(
    lab: Any, recorder: Any, scope: str
) -> None:
    """What could not be put in order fails as any record does, and is not committed."""
    if scope == "handler":
        lab.checker_options = {"lane_scope": lambda _partition: "one handler"}
    gate = recorder.block(lambda record: record.offset() == 0)
    lab.produce("a a b")
    app = lab.start(recorder, order_by=lambda record: Key(record.key(), comparable=False), scope=scope)
    threading.Timer(0.3, gate.set).start()
    ends_with(
        app, ehkafka.errors.HandlerFailedError, r"t\[0\]@1, key \(order_by failed\).*cannot be compared"
    )
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


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_order_by_that_exits_stops_the_app_as_a_handler_would(
    lab: Any, recorder: Any, kind: type[BaseException]
) -> None:
    """No policy takes it, and no thread of ours dies of it: the handler's failure, exit code 1."""

    def order(_record: Any) -> None:
        raise kind(3)

    lab.produce("a b")
    app = lab.start(recorder, order_by=order, on_failure=ehkafka.Skip())
    ends_with(app, ehkafka.errors.HandlerFailedError, f"Handler 'Recorder' failed at .*{kind.__name__}: 3")
    assert lab.committed() in (None, 0)


@pytest.mark.parametrize("is_batch", [False, True])
def test_an_async_handler_that_stops_its_loop_is_named(lab: Any, *, is_batch: bool) -> None:
    """It ends the app as a failing handler does, and waits for nobody: no defect of ours."""

    async def stops(_record: Any) -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)

    lab.produce("a")
    app = lab.app()
    app.batch_handler("t", wait_s_max=0.01)(stops) if is_batch else app.handler("t")(stops)
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, r"handler 'stops' .*loop\.stop\(\) was called there")
