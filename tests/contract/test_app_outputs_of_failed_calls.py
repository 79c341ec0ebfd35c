"""What a call has sent that then fails, skips or gives its record back is never written, at any time."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import HandlerFailed
from tests.kit.topic_read import read_all

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY = ehkafka.Retry(attempts=3, first_s=0.01)
# Each word is a record's key: what its call does after it has sent.
KEYS = "good once always skip later good2 once2 always2 skip2 later2"
GOOD = ["good", "good2", "later", "later2", "once", "once2"]
# Longer than an output that is on its way needs, so that one that is sent in vain is seen.
SENT_S = 0.1
LIMIT_S = 60.0
LIMIT_WORDS = r"64 Mi?B"


def failing(record: Any) -> None:
    """Send, and then do what the key says."""
    word = record.key().decode().rstrip("2")
    ends = word == "good" or (record.attempt > 1 and word in ("once", "later"))
    record.send(record.key() if ends else b"void")
    if ends:
        return
    time.sleep(SENT_S)
    if word == "skip":
        raise ehkafka.SkipRecord("unwanted")
    if word == "later":
        raise ehkafka.RetryLater(0.01)
    raise ValueError("no luck")


async def failing_async(record: Any) -> None:
    """Do it in a task."""
    await asyncio.sleep(0)
    failing(record)


class FailingClass:
    """Do it in a class of which each partition has an instance."""

    def process(self, record: Any) -> None:
        """Handle a record."""
        failing(record)


def failing_by_token(record: Any) -> None:
    """Leave the record in flight, send, and answer from another thread."""
    token = record.defer(deadline_s=30.0)

    def answer() -> None:
        try:
            failing(record)
        except Exception as error:
            token.fail(error)
        else:
            token.finish()

    threading.Thread(target=answer).start()


def sending_then_failing_by_token(record: Any) -> None:
    """Send within the call, and fail it afterwards from another thread."""
    token = record.defer(deadline_s=30.0)
    try:
        failing(record)
    except Exception as error:
        timer = threading.Timer(0.05, token.fail, (error,))
    else:
        timer = threading.Timer(0.05, token.finish)
    timer.start()


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (failing, {"workers": 4}),
    "tasks": (failing_async, {"workers": 10}),
    "class": (FailingClass, {"workers": 4}),
    "deferred": (failing_by_token, {"workers": 4}),
    "deferred after it has sent": (sending_then_failing_by_token, {"workers": 4}),
    "processes": (failing, {"workers": ehkafka.Processes(2)}),
    "waiting threads": (failing, {"workers": 4, "acknowledged": "before_next"}),
    "waiting tasks": (failing_async, {"workers": 10, "acknowledged": "before_next"}),
    "waiting processes": (failing, {"workers": ehkafka.Processes(2), "acknowledged": "before_next"}),
}


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with topics for outputs and letters."""
    lab.broker.create_topic("out", 1)
    lab.broker.create_topic("dead", 1)
    return lab


def written(lab: Any, topic: str = "out") -> list[str]:
    """Return what is in a topic, sorted."""
    return sorted(value.decode() for _, value in read_all(lab.broker.bootstrap, topic))


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_fails_has_sent_nothing(out: Any, wait_for: Callable[..., Any], kind: str) -> None:
    """Neither an attempt before another one nor the last one; its letter is there."""
    handler, options = KINDS[kind]
    out.produce(KEYS)
    app = out.app(None)
    app.handler("t", to="out", retry=RETRY, on_failure=ehkafka.DeadLetter("dead"), **options)(handler)
    app.start()
    wait_for(lambda: out.committed() == len(KEYS.split()), timeout_s=LIMIT_S)
    app.stop()
    assert written(out) == GOOD
    letters = sorted(key.decode() for key, _ in read_all(out.broker.bootstrap, "dead"))
    assert letters == ["always", "always2"]


def test_a_letter_says_nothing_of_outputs_that_were_never_sent(
    out: Any, read_topic: Callable[..., list[Any]]
) -> None:
    """There is nothing to know of them."""
    out.produce("always")
    app = out.app(None)
    app.handler("t", to="out", retry=RETRY, on_failure=ehkafka.DeadLetter("dead"))(failing)
    app.start()
    (letter,) = read_topic("dead", 1)
    app.stop()
    assert [name for name, _ in letter.headers() if name.startswith("ehkafka-outputs-")] == []


# --- batches ---


def giving_back(batch: Any) -> None:
    """Send for each record, and then skip or fail some."""
    for record in batch:
        word = record.key().decode().rstrip("2")
        ends = word == "good" or (record.attempt > 1 and word in ("once", "later"))
        record.send(record.key() if ends else b"void")
    time.sleep(SENT_S)
    for record in batch:
        word = record.key().decode().rstrip("2")
        if word == "skip":
            batch.skip(record, "unwanted")
        elif word == "always" or (word in ("once", "later") and record.attempt == 1):
            batch.fail(record, ValueError("no luck"))


async def giving_back_async(batch: Any) -> None:
    """Do it in a task."""
    await asyncio.sleep(0)
    giving_back(batch)


def raising_at_first(batch: Any) -> None:
    """Send for each record, and fail the whole call unless this is another attempt."""
    for record in batch:
        record.send(record.key() if record.attempt > 1 else b"void")
    time.sleep(SENT_S)
    if any(record.attempt == 1 for record in batch):
        raise ValueError("no luck")


@pytest.mark.parametrize("handler", [giving_back, giving_back_async])
def test_a_record_that_its_batch_skips_or_fails_has_sent_nothing(
    out: Any, wait_for: Callable[..., Any], handler: Any
) -> None:
    """Whatever the batch had sent for it before; the others' outputs are there once."""
    out.produce(KEYS)
    app = out.app(None)
    policy = {"retry": RETRY, "on_failure": ehkafka.DeadLetter("dead")}
    app.batch_handler("t", to="out", batch_records_max=10, wait_s_max=0.1, **policy)(handler)
    app.start()
    wait_for(lambda: out.committed() == len(KEYS.split()), timeout_s=LIMIT_S)
    app.stop()
    assert written(out) == GOOD


def test_a_batch_that_raises_has_sent_nothing(out: Any, wait_for: Callable[..., Any]) -> None:
    """Its records come again, and their outputs of that call are there."""
    out.produce("a b c d e")
    app = out.app(None)
    limits = {"batch_records_max": 5, "wait_s_max": 2.0}
    app.batch_handler("t", to="out", retry=RETRY, **limits)(raising_at_first)
    app.start()
    wait_for(lambda: out.committed() == 5, timeout_s=LIMIT_S)
    app.stop()
    assert written(out) == ["a", "b", "c", "d", "e"]


# --- the limit of a call ---


def sending_much(record: Any) -> None:
    """Send 68 MB for one key, 36 MB for others."""
    value = bytes(900_000)
    for _ in range(76 if record.key() == b"much" else 40):
        record.send(value)


async def sending_much_async(record: Any) -> None:
    """Do it in a task."""
    sending_much(record)


def sending_much_in_batches(batch: Any) -> None:
    """Do it for the records of a batch."""
    for record in batch:
        sending_much(record)


MUCH: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (sending_much, {"workers": 2}),
    "tasks": (sending_much_async, {"workers": 2}),
    "processes": (sending_much, {"workers": ehkafka.Processes(1)}),
    "batches": (sending_much_in_batches, {"batch_records_max": 1}),
}


@pytest.mark.parametrize("kind", MUCH)
def test_a_call_that_sends_too_much_fails_with_the_limit_named(
    out: Any, wait_for: Callable[..., Any], events: Any, kind: str
) -> None:
    """It would hold all of it in memory; what others send is not in its way."""
    handler, options = MUCH[kind]
    out.produce("much less")
    app = out.app(None)
    app.add_hook(events)
    decorate = app.batch_handler if kind == "batches" else app.handler
    decorate("t", to="out", on_failure=ehkafka.DeadLetter("dead"), **options)(handler)
    app.start()
    wait_for(lambda: out.committed() == 2, timeout_s=LIMIT_S)
    app.stop()
    letters = read_all(out.broker.bootstrap, "dead")
    assert [key for key, _ in letters] == [b"much"]
    failed = [event.sentence() for event in events.of(HandlerFailed)]
    assert any(re.search(LIMIT_WORDS, sentence) for sentence in failed), failed
