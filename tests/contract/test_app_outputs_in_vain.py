"""An attempt that fails after it has sent something says so: in an event, and in its record's letter."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import OutputsSentInVain
from ehkafka.testing import ApiKey
from tests.contract.output_handlers import twice_in_vain

SENT, ACKNOWLEDGED = "ehkafka-outputs-sent", "ehkafka-outputs-acknowledged"
FAILS = {"retry": ehkafka.Retry(attempts=2, first_s=0.01), "on_failure": ehkafka.DeadLetter("dead")}


class Failing:
    """Sends twice, and fails once both are acknowledged; records with the key `good` are not failed."""

    def __init__(self) -> None:
        self.app: Any = None
        self.waits = True

    def send(self, record: Any) -> None:
        """Send twice for a record."""
        record.send("1")
        record.send("2")
        ends_s = time.monotonic() + 10.0
        while self.waits and self.app.snapshot().unacknowledged_outputs and time.monotonic() < ends_s:
            time.sleep(0.01)

    def function(self, record: Any) -> None:
        """Handle a record."""
        if record.key() != b"good":
            self.send(record)
            raise ValueError("no luck")

    async def task(self, record: Any) -> None:
        """Handle it in a task."""
        self.function(record)

    def deferring(self, record: Any) -> None:
        """Leave it to somebody else, who fails it."""
        token = record.defer()
        self.send(record)
        token.fail(ValueError("no luck"))

    def batch(self, batch: Any) -> None:
        """Handle a batch of one."""
        for record in batch:
            self.function(record)


@pytest.fixture
def failing(lab: Any) -> Any:
    """Return a handler, and what makes an app of it."""
    lab.broker.create_topic("out", 1)
    lab.broker.create_topic("dead", 1)
    handler = Failing()

    def make(kind: str, **options: Any) -> Any:
        handler.app = app = lab.app(None)
        if kind == "batch":
            decorate = app.batch_handler("t", to="out", batch_records_max=1, **FAILS, **options)
        else:
            decorate = app.handler("t", to="out", **FAILS, **options)
        decorate(getattr(handler, kind))
        return app

    handler.make = make  # type: ignore[attr-defined]
    return handler


def headers_of(message: Any) -> dict[str, bytes]:
    """Return a letter's headers."""
    return dict(message.headers())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("function", {}),
        ("function", {"acknowledged": "before_next"}),
        ("task", {}),
        ("deferring", {}),
        ("batch", {}),
    ],
)
def test_a_letter_says_what_its_record_s_attempts_had_sent(
    lab: Any, failing: Any, events: Any, read_topic: Any, kind: str, options: dict[str, Any]
) -> None:
    """Both attempts count, and the event comes for each."""
    lab.produce("a")
    app = failing.make(kind, **options)
    app.add_hook(events)
    app.start()
    (letter,) = read_topic("dead", 1)
    found = headers_of(letter)
    assert (found["ehkafka-attempts"], found[SENT], found[ACKNOWLEDGED]) == (b"2", b"4", b"4")
    app.stop()
    reported = [(one.attempt, one.sent, one.acknowledged) for one in events.of(OutputsSentInVain)]
    assert reported == [(1, 2, 2), (2, 2, 2)]


def test_what_a_worker_process_had_sent_comes_with_its_failure(
    lab: Any, failing: Any, events: Any, read_topic: Any, wait_for: Any
) -> None:
    """It is sent before the policy decides, counted as on a thread, and none of the last is safe by then."""
    lab.produce("a good")
    app = lab.app(None)
    app.handler("t", to="out", workers=ehkafka.Processes(1), **FAILS)(twice_in_vain)
    app.add_hook(events)
    app.start()
    (letter,) = read_topic("dead", 1)
    found = headers_of(letter)
    assert (found["ehkafka-attempts"], found[SENT]) == (b"2", b"4")
    assert int(found[ACKNOWLEDGED]) <= 4
    wait_for(lambda: lab.committed() == 2)
    app.stop()
    assert [(one.attempt, one.sent) for one in events.of(OutputsSentInVain)] == [(1, 2), (2, 2)]
    of_a = [message.value() for message in read_topic("out", 5) if message.key() == b"a"]
    assert of_a == [b"1", b"2", b"1", b"2"]


def test_a_letter_says_that_nothing_is_acknowledged_yet(
    lab: Any, failing: Any, wait_for: Any, read_topic: Any
) -> None:
    """The broker holds its answers back: what was sent may still fail."""
    failing.waits = False
    app = failing.make("function")
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.produce("good")
    wait_for(lambda: lab.committed() == 1)
    lab.produce("a")
    lab.broker.delay_next(ApiKey.PRODUCE, 1.0)
    (letter,) = read_topic("dead", 1)
    found = headers_of(letter)
    assert found[SENT] == b"4"
    assert found[ACKNOWLEDGED] in (b"0", b"2")
    app.stop()


def test_a_letter_of_an_attempt_that_sent_nothing_has_no_such_header(
    lab: Any, failing: Any, read_topic: Any
) -> None:
    """Nor does one whose record before it had sent something."""
    lab.produce("a a")

    def handle(record: Any) -> None:
        if record.offset() == 0:
            record.send("1")
        raise ValueError("no luck")

    failing.function = handle
    app = failing.make("function")
    app.start()
    first, second = read_topic("dead", 2)
    assert headers_of(first)[SENT] == b"2"
    assert SENT not in headers_of(second)
    assert ACKNOWLEDGED not in headers_of(second)
    app.stop()
