"""User code at its worst: exits, errors without a text, keys that cannot be compared, functions never run."""

from __future__ import annotations

import asyncio
import copy
import functools
import sys
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import UserCodeFailed


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


def ends_with(app: Any, kind: type[ehkafka.EhkafkaError], words: str) -> None:
    """Wait a little for the app to end by itself, and for the error that ended it."""
    assert app.wait(5.0)
    with pytest.raises(kind, match=words):
        app.stop()


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
    app.add_hook(events)
    app.on_error(leave)
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, "ValueError: no luck with 0")
    assert [event.where for event in events.of(UserCodeFailed)] == ["on_error"]


def test_a_tear_down_that_exits_is_reported(lab: Any, recorder: Any, events: Any) -> None:
    """It is an event like any other error there."""
    app = lab.app(recorder, workers=1)
    app.add_hook(events)
    app.on_worker_stop(leave)
    app.start()
    app.stop()
    assert [event.error for event in events.of(UserCodeFailed)] == ["SystemExit: 3"]


def test_an_error_without_a_text_takes_the_failure_path(lab: Any, recorder: Any) -> None:
    """Its type is reported, the worker lives, the app stops in good order."""

    def fail(_record: Any) -> None:
        raise SpeechlessError

    recorder.work = fail
    lab.produce("a")
    app = lab.app(recorder)
    app.start()
    ends_with(
        app,
        ehkafka.errors.HandlerFailedError,
        r"SpeechlessError \(its text could not be made: RuntimeError\)",
    )


def test_a_key_without_a_text_is_shown_by_its_type(lab: Any, recorder: Any, wait_for: Any) -> None:
    """Snapshot and health name the class; nobody dies of it."""
    gate = recorder.block()
    lab.produce("a a")
    app = lab.app(recorder, order_by=lambda record: Key(record.key(), comparable=True))
    app.start()
    wait_for(lambda: app.snapshot().received_records == 2)
    (partition,) = app.snapshot().partitions
    assert partition.oldest.key == "<Key>"
    gate.set()
    wait_for(lambda: lab.committed() == 2)
    app.stop()


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_a_key_that_cannot_be_compared_fails_its_record_and_loses_none(
    lab: Any, recorder: Any, scope: str
) -> None:
    """What could not be put in order fails as any record does, and is not committed."""
    if scope == "handler":
        lab.checker_options = {"lane_scope": lambda _partition: "one handler"}
    gate = recorder.block(lambda record: record.offset() == 0)
    lab.produce("a a b")
    app = lab.app(recorder, order_by=lambda record: Key(record.key(), comparable=False), scope=scope)
    app.start()
    threading.Timer(0.3, gate.set).start()
    ends_with(
        app, ehkafka.errors.HandlerFailedError, r"t\[0\]@1, key \(order_by failed\).*cannot be compared"
    )
    assert lab.committed() in (None, 0, 1)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("kind", ["function", "class", "middleware"])
def test_a_coroutine_that_nobody_runs_is_a_failure_and_no_finished_record(
    lab: Any, kind: str, raw: bool
) -> None:
    """An `async def` behind a plain decorator cannot be seen before; the record stays."""

    async def later(_record: Any) -> None: ...

    @functools.wraps(later)
    def plain(record: Any) -> Any:
        return later(record)

    class Instance:
        def process(self, record: Any) -> Any:
            return plain(record)

    lab.produce("a")
    app = lab.app(Instance if kind == "class" else plain, raw=raw)
    if kind == "middleware":

        @app.use
        def swallow(record: Any, call_next: Any) -> None:
            call_next(record)

    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, "TypeError: the handler returned a coroutine")
    assert lab.committed() in (None, 0)


def test_a_handler_that_contains_yield_is_refused(lab: Any) -> None:
    """Calling it would run nothing of it: every record would count as handled."""

    def handle(record: Any) -> Any:
        yield record

    class Instance:
        def process(self, record: Any) -> Any:
            yield record

    for handler in (handle, Instance):
        with pytest.raises(ehkafka.errors.ConfigurationError, match="contains yield"):
            lab.app().handler("t")(handler)


def test_a_record_may_be_copied(lab: Any, recorder: Any, wait_for: Any) -> None:
    """`copy.copy` gives a record of the same message and attempt."""
    lab.produce("a")
    app = lab.app(recorder)
    app.start()
    wait_for(lambda: recorder.count == 1)
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
    app = lab.app(recorder, order_by=order, on_failure=ehkafka.Skip())
    app.start()
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
