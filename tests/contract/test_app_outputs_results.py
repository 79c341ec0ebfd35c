"""What a handler gives back as outputs: yielded, in lists, without a topic to go to, under middleware."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka import Send
from ehkafka.errors import ConfigurationError, HandlerFailedError
from ehkafka.testing import make_record, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def _app() -> ehkafka.App:
    return ehkafka.App(group="g", start="earliest")


def split(record: ehkafka.Record) -> Iterator[Send]:
    """Yield a message for each letter."""
    for letter in record.value().decode():  # type: ignore[union-attr]
        if letter == "!":
            raise ValueError("no letter")
        yield Send(letter, headers={"of": record.key()})  # type: ignore[dict-item]


async def split_async(record: ehkafka.Record) -> AsyncIterator[Send]:
    """Do the same on a loop."""
    for one in split(record):
        await asyncio.sleep(0)
        yield one


class Split:
    """Do the same for each partition."""

    def process(self, record: ehkafka.Record) -> Iterator[Send]:
        """Yield a message for each letter."""
        yield from split(record)


async def split_text(text: str) -> AsyncIterator[str]:
    """Do the same with a payload."""
    for letter in text:
        if letter == "!":
            raise ValueError("no letter")
        yield letter


def split_batch(batch: ehkafka.Batch) -> Iterator[Send]:
    """Do the same with many."""
    for record in batch:
        yield from (Send(one.value, key=record.key()) for one in split(record))


async def split_batch_async(batch: ehkafka.Batch) -> AsyncIterator[Send]:
    """Do the same with many on a loop."""
    for one in split_batch(batch):
        yield one


HANDLERS = [split, split_async, Split, split_text, split_batch, split_batch_async]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_what_a_handler_yields_is_sent_together(handler: Any) -> None:
    """All of it in its order; nothing of a call that fails on the way."""
    app = _app()
    decorate: Callable[..., Any] = app.handler
    options: dict[str, Any] = {"to": "out", "on_failure": ehkafka.Skip()}
    if handler in (split_batch, split_batch_async):
        decorate, options = app.batch_handler, {**options, "wait_s_max": 0.05, "batch_records_max": 1}
    decorate("in", **options)(handler)
    with run(app, partitions=1) as t:
        for value in ("abc", "x!y", "d"):
            t.send("in", value, key="k")
        t.wait()
        assert [(one.key, one.value) for one in t.outputs("out")] == [("k", letter) for letter in "abcd"]
        assert [one.value for one in t.skipped] == ["x!y"]


def test_a_yield_without_a_topic_to_go_to_is_refused() -> None:
    """Nobody would run it."""
    with pytest.raises(ConfigurationError, match=r"contains yield.* or give it to="):
        _app().handler("in")(split)


def test_a_list_of_messages_without_a_topic_to_go_to_fails() -> None:
    """As one message does; they would be lost without a word."""
    app = _app()
    app.handler("in")(lambda _record: [None, Send("x")])
    with run(app) as t:
        t.send("in", "x")
        with pytest.raises(HandlerFailedError, match=r"returned a Send, .* give it to="):
            t.wait()


def test_an_annotation_that_promises_messages_needs_a_topic() -> None:
    """Known before the first record comes."""
    app = _app()

    @app.handler("in")
    def handle(record: ehkafka.Record) -> list[Send] | None:
        return [Send(record.value())]

    with pytest.raises(ConfigurationError, match=r"'handle' is annotated to return Send"), run(app):
        pass


def test_middleware_that_hands_on_another_record_fails_in_words() -> None:
    """The outputs would be of a record that nobody has received."""
    app = _app()
    app.use(lambda _record, call_next: call_next(make_record("other")))
    app.handler("in", to="out")(lambda record: record.value())
    with run(app) as t:
        t.send("in", "x")
        with pytest.raises(HandlerFailedError, match="was given another record than it received"):
            t.wait()
