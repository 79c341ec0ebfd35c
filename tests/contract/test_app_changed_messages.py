"""Handlers that change what they are given: what is tried again and dead-lettered is what was received."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ehkafka
from tests.kit.inside import inside
from tests.kit.waiting import wait_until

HEADERS = [("trace", b"1")]


class Unusable:
    """What a handler may leave in a message: it has no bytes, no length and no hash."""

    __hash__ = None  # type: ignore[assignment]


def spoil(message: Any) -> None:
    """Set all that can be set, as an in-place deserialiser does, and change the list of headers."""
    (message.headers() or []).append(("late", b"2"))
    message.set_value({"json": True})
    message.set_key(Unusable())
    message.set_topic("elsewhere")
    message.set_headers([("other", b"3"), ("more", b"4")])


def _as_received(message: Any) -> tuple[Any, ...]:
    return (message.topic(), message.key(), message.value(), list(message.headers() or []))


class Spoiler:
    """Notes what each attempt is given, spoils it, and fails the records that it is asked to."""

    def __init__(self, fails: set[int], attempts: int = 1, *, how: str = "record") -> None:
        self.fails = fails
        self.attempts = attempts
        self.how = how
        self.seen: dict[int, list[tuple[Any, ...]]] = {}
        self.order: list[int] = []

    def __call__(self, record: Any) -> None:
        """Handle a record."""
        offset = record.offset()
        self.order.append(offset)
        tries = self.seen.setdefault(offset, [])
        tries.append(_as_received(record))
        spoil(record.message if self.how == "message" else record)
        if offset in self.fails and len(tries) <= self.attempts:
            raise ValueError("once more")

    async def awaited(self, record: Any) -> None:
        """The same, for asyncio."""
        self(record)

    def around(self, record: Any, call_next: Any) -> Any:
        """The same, in middleware: the handler behind it has nothing to do."""
        self(record)
        return call_next(record)


def _add(app: Any, kind: str, spoiler: Spoiler, **options: Any) -> None:
    raw = kind.endswith("raw")
    if kind.startswith("asyncio"):

        async def awaited(record: Any) -> None:
            spoiler(record)

        app.handler("t", raw=raw, **options)(awaited)
    elif kind.startswith("middleware"):
        app.use(spoiler.around)
        app.handler("t", raw=raw, **options)(lambda _record: None)
    elif kind.startswith("class"):

        class Instance:
            def process(self, record: Any) -> None:
                spoiler(record)

        app.handler("t", raw=raw, **options)(Instance)
    elif kind == "batch":

        def batched(batch: Any) -> None:
            for record in batch:
                try:
                    spoiler(record)
                except ValueError as error:
                    batch.fail(record, error)

        app.batch_handler("t", wait_s_max=0.01, **options)(batched)
    else:
        if kind == "message":
            spoiler.how = "message"
        app.handler("t", raw=raw, **options)(spoiler)


KINDS = [
    "function",
    "function raw",
    "message",
    "class",
    "class raw",
    "asyncio",
    "asyncio raw",
    "middleware",
    "middleware raw",
    "batch",
]


def _produce(lab: Any, keys: str) -> None:
    lab.broker.produce("t", [(key.encode(), b"v") for key in keys.split()], partition=0, headers=HEADERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_tried_again_as_it_was_received_before_the_next_of_its_key(lab: Any, kind: str) -> None:
    """Whatever its handler had made of it; later records of its key wait behind it."""
    _produce(lab, "a a a b a c " * 20)
    spoiler = Spoiler({0, 4, 7, 60})
    app = lab.app(history=False)
    _add(app, kind, spoiler, retry=ehkafka.Retry(attempts=3, first_s=0.05, jitter=0.0))
    app.start()
    wait_until(lambda: lab.committed() == 120)
    app.stop()
    if kind != "batch":  # there those behind a failed one come again with it
        again = {offset: len(tries) for offset, tries in spoiler.seen.items() if len(tries) > 1}
        assert again == {0: 2, 4: 2, 7: 2, 60: 2}
    keys = ("a a a b a c " * 20).split()
    for offset, tries in spoiler.seen.items():
        assert tries == [("t", keys[offset].encode(), b"v", HEADERS)] * len(tries)
    for key in "abc":
        last = list(dict.fromkeys(reversed(spoiler.order)))[::-1]
        ends = [offset for offset in last if keys[offset] == key]
        assert ends == sorted(ends), f"records of {key} swapped: {ends}"
    assert _held_bytes(app) == [(0, 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_letter_is_what_was_received(lab: Any, kind: str) -> None:
    """Its key, value and headers, not what a handler set in their place."""
    letters: list[Any] = []
    _produce(lab, "a b a")
    spoiler = Spoiler({0, 1}, attempts=9)
    app = lab.app(history=False)
    policy = ehkafka.DeadLetter(letters.append, run_max=None, ratio_max=None)
    _add(app, kind, spoiler, on_failure=policy)
    app.start()
    wait_until(lambda: lab.committed() == 3)
    app.stop()
    assert sorted((letter.offset, letter.key, letter.value, letter.headers[:1]) for letter in letters) == [
        (0, b"a", b"v", HEADERS),
        (1, b"b", b"v", HEADERS),
    ]
    assert all([name for name, _ in letter.headers].count("late") == 0 for letter in letters)


@pytest.mark.parametrize("raw", [False, True])
def test_those_who_are_asked_about_a_failure_change_nothing(lab: Any, *, raw: bool) -> None:
    """Retry functions and `on_error` get a record of their own; so do order functions."""
    letters: list[Any] = []
    asked: list[tuple[Any, ...]] = []

    def ask(record: Any) -> None:
        asked.append(_as_received(record))
        spoil(record)

    def retry(record: Any, attempt: int, _error: Exception) -> float | None:
        ask(record)
        return 0.01 if attempt == 1 else None

    def order_by(record: Any) -> Any:
        ask(record)
        return 1

    def fail(record: Any) -> None:
        asked.append(_as_received(record))
        raise ValueError

    _produce(lab, "a")
    app = lab.app(history=False)
    app.on_error(lambda _kind, _partition, record, _error: ask(record))
    policy = ehkafka.DeadLetter(letters.append, run_max=None, ratio_max=None)
    app.handler("t", raw=raw, retry=retry, order_by=order_by, on_failure=policy)(fail)
    app.start()
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert asked == [("t", b"a", b"v", HEADERS)] * 6
    assert (letters[0].key, letters[0].value, letters[0].headers[:1]) == (b"a", b"v", HEADERS)


@pytest.mark.parametrize("raw", [False, True])
def test_a_deferred_record_that_fails_is_what_was_received(lab: Any, *, raw: bool) -> None:
    """Its handler has spoiled and deferred it; the answer comes from elsewhere."""
    seen: list[tuple[Any, ...]] = []
    tokens: list[Any] = []

    def handle(record: Any) -> None:
        seen.append(_as_received(record))
        spoil(record)
        tokens.append(ehkafka.defer(record) if raw else record.defer())

    _produce(lab, "a a")
    app = lab.app(history=False)
    app.handler("t", raw=raw, retry=ehkafka.Retry(attempts=2, first_s=0.01))(handle)
    app.start()
    wait_until(lambda: len(tokens) == 1)
    tokens[0].fail(ValueError("no"))
    wait_until(lambda: len(tokens) == 2)
    tokens[1].finish()
    wait_until(lambda: len(tokens) == 3)
    tokens[2].finish()
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    assert seen == [("t", b"a", b"v", HEADERS)] * 3


def test_a_record_of_its_own_message_may_be_deferred(lab: Any) -> None:
    """`adapt` hands over a message of the handler's own; its token is the record's."""
    tokens: list[Any] = []

    @ehkafka.adapt
    def handle(message: Any) -> None:
        message.set_value(json.loads(message.value() or b"0"))
        tokens.append(ehkafka.defer(message))

    lab.broker.produce("t", [(b"a", b"17")], partition=0)
    app = lab.app(history=False)
    app.handler("t")(handle)
    app.start()
    wait_until(lambda: tokens)
    assert lab.committed() in (None, 0)
    assert tokens[0].finish()
    wait_until(lambda: lab.committed() == 1)


def _held_bytes(app: Any) -> list[tuple[int, int]]:
    tallies = [route.hub.tally for route in inside(app).routes]
    return [(tally.backlog_bytes, tally.parked_bytes) for tally in tallies]
