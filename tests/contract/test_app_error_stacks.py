"""What a failed handler leaves, whatever its workers: the line of the user's code, its stack, the error."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import (
    BatchRaised,
    DeadLetterFailed,
    HandlerFailed,
    RecordRetried,
    RecordSkipped,
    UserCodeFailed,
)
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = Path(__file__).parents[1] / "workers" / "processes" / "process_code"
STACK = "ehkafka-error-stack"
PASSWORD = "hunter2"


def connect(password: str) -> None:
    """Fail where a local variable is a secret."""
    host = f"db as {password}"
    raise ConnectionError(len(host))


def fails(record: Any) -> None:
    """Fail two calls deep."""
    connect(record.value().decode())


async def fails_later(record: Any) -> None:
    """Fail in a task group."""

    async def part() -> None:
        connect(record.value().decode())

    async with asyncio.TaskGroup() as group:
        group.create_task(part())


class Fails:
    """A class handler."""

    def process(self, record: Any) -> None:
        """Fail."""
        fails(record)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    """Return the log's lines of one kind of event, stacks included."""
    caplog.set_level(logging.DEBUG, logger="ehkafka")
    return lambda kind: [r.getMessage() for r in caplog.records if vars(r).get("event") == kind]


def line_of(function: Any) -> str:
    """Return the place in which a function here raises: its last line."""
    code = function.__code__
    return f"{__file__}:{max(n for _, _, n in code.co_lines() if n)} in {code.co_name}"


@pytest.mark.parametrize(
    ("policy", "retry", "kind"),
    [
        (ehkafka.Hold(), ehkafka.Retry(attempts=None, first_s=30), RecordRetried),
        (ehkafka.Skip(), None, RecordSkipped),
        (ehkafka.Hold(), None, HandlerFailed),
        (ehkafka.DeadLetter(lambda _letter: None), None, HandlerFailed),
    ],
)
@pytest.mark.parametrize("handler", [fails, fails_later, Fails])
def test_whatever_becomes_of_the_record_the_log_says_where_and_shows_the_stack_once(
    lab: Any, events: Any, logged: Any, handler: Any, policy: Any, retry: Any, kind: Any
) -> None:
    """The line names the innermost line of the user's code; the stack comes once, without a value."""
    options = {} if retry is None else {"retry": retry}
    app = lab.app(handler, on_failure=policy, order_by=ehkafka.unordered, workers=1, **options)
    lab.produce("a b c", value=PASSWORD.encode())
    app.start()
    wait_until(lambda: len(events.of(kind)) == 3)
    app.stop()
    place = line_of(connect)
    assert [event.place for event in events.of(kind)] == [place] * 3
    lines = logged(kind.__name__)
    assert f"({place})" in lines[0]
    assert lines[0].count("Traceback (most recent call last):\n") >= 1
    assert "    raise ConnectionError(len(host))" in lines[0]
    assert "threads.py" not in lines[0]
    assert "\n" not in "".join(lines[1:])
    # Where lines were thinned, the last one says how many it stands for.
    assert "3 such errors so far" in lines[-1] or lines[-1].startswith("2 more times from ")
    assert PASSWORD not in "".join(lines)


def test_a_letter_has_the_stack_of_its_error(lab: Any, read_topic: Any) -> None:
    """Places and source lines, of the cause, too; neither a local value nor the cause's text."""

    def handler(record: Any) -> None:
        try:
            int(record.value().decode())
        except ValueError as error:
            raise LookupError("no such home") from error

    lab.broker.create_topic("dead", 1)
    app = lab.app(handler, on_failure=ehkafka.DeadLetter("dead"))
    lab.produce("a", value=PASSWORD.encode())
    app.start()
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    (letter,) = read_topic("dead", 1)
    stack = dict(letter.headers())[STACK].decode()
    assert stack.startswith(f"at {line_of(handler)}\nTraceback (most recent call last):\n")
    assert "int(record.value().decode())\nValueError\n" in stack
    assert stack.endswith("LookupError")
    assert PASSWORD not in stack


@pytest.mark.parametrize(
    ("policy", "handler"),
    [
        (ehkafka.DeadLetter("dead", stack=False), fails),
        (
            ehkafka.DeadLetter("dead"),
            lambda batch: [batch.fail(r, ehkafka.RejectRecord("old")) for r in batch],
        ),
    ],
)
def test_a_letter_has_no_stack_where_none_is_wanted_or_known(
    lab: Any, read_topic: Any, policy: Any, handler: Any
) -> None:
    """The option switches it off; an error that was never raised has none."""
    lab.broker.create_topic("dead", 1)
    app = lab.app()
    (app.handler if handler is fails else app.batch_handler)("t", on_failure=policy)(handler)
    lab.produce("a")
    app.start()
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    (letter,) = read_topic("dead", 1)
    assert STACK not in dict(letter.headers())


def test_a_batch_that_raises_says_where_and_so_does_each_record_that_it_fails(
    lab: Any, events: Any, logged: Any
) -> None:
    """Of a batch of which no record is to blame yet, too."""

    def store(batch: Any) -> None:
        if len(batch) > 1:
            connect("x")
        try:
            connect("y")
        except ConnectionError as error:
            batch.fail(batch[0], error)

    app = lab.app()
    app.batch_handler("t", batch_records_max=2, wait_s_max=0.2, on_failure=ehkafka.Hold())(store)
    lab.produce("a b")
    app.start()
    wait_until(lambda: len(events.of(HandlerFailed)) == 2 and events.of(BatchRaised))
    app.stop()
    failed = events.of(HandlerFailed)
    assert {event.place for event in failed} == {line_of(connect)}
    # A hook may send the error itself on, frames included.
    assert all(event.exception.__traceback__ is not None for event in failed)
    assert "raise ConnectionError" in logged("BatchRaised")[0]


def test_an_error_of_a_worker_process_says_where_it_was_raised_there(
    lab: Any, events: Any, logged: Any, read_topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stack travels: in the line, in the letter."""
    monkeypatch.syspath_prepend(str(CODE))
    handlers = importlib.import_module("process_handlers")
    monkeypatch.setenv(handlers.DIRECTORY, str(tmp_path))
    lab.broker.create_topic("dead", 1)
    app = lab.app(handlers.handle, workers=ehkafka.Processes(1), on_failure=ehkafka.DeadLetter("dead"))
    lab.produce("a", value=b"odd")
    app.start()
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    (failed,) = events.of(HandlerFailed)
    place = failed.place
    assert re.fullmatch(rf"{re.escape(handlers.__file__)}:\d+ in _do", place)
    (line,) = logged("HandlerFailed")
    assert f"({place})" in line
    assert 'raise Odd(7, "an odd failure")' in line
    assert "process_child.py" not in line
    (letter,) = read_topic("dead", 1)
    assert dict(letter.headers())[STACK].decode().startswith(f"at {place}\nTraceback")


def test_hooks_and_dead_letter_functions_say_where_they_raise(lab: Any, events: Any, logged: Any) -> None:
    """What the user's code raises elsewhere leaves a stack as well."""

    def hook(*_arguments: Any) -> None:
        raise KeyError("x")

    def save(_letter: Any) -> None:
        raise OSError("y")

    app = lab.app(fails, on_failure=ehkafka.DeadLetter(save))
    app.on_error(hook)
    lab.produce("a")
    app.start()
    wait_until(lambda: events.of(UserCodeFailed) and events.of(DeadLetterFailed))
    assert events.of(UserCodeFailed)[0].place == line_of(hook)
    assert events.of(DeadLetterFailed)[0].place == line_of(save)
    wait_until(lambda: logged("DeadLetterFailed"))
    assert 'raise OSError("y")' in logged("DeadLetterFailed")[0]
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(timeout_s=0.2)
