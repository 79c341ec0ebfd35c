"""What a call's outputs may be, and which are never sent: of calls that fail or outlive their epoch."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka import Send
from ehkafka.errors import EndpointError, HandlerFailedError
from ehkafka.events import HandlerFailed, PartitionAssigned, PartitionLost
from ehkafka.testing import ApiKey, make_record, run
from tests.contract.contract_handlers import SENT_S
from tests.contract.letters import TO_DEAD
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

RETRY = ehkafka.Retry(attempts=3, first_s=0.01)
# Each word is a record's key: what its call does after it has sent.
KEYS = "good once always skip good2 once2 always2 skip2"
GOOD = ["good", "good2", "once", "once2"]


def written(lab: Any) -> list[str]:
    """Return what is in the topic of outputs, sorted."""
    return sorted(value.decode() for _, value in read_all(lab.broker.bootstrap, "out"))


# --- calls that fail ---


def failing(record: Any) -> None:
    """Send, and then do what the key says."""
    word = record.key().decode().rstrip("2")
    ends = word == "good" or (record.attempt > 1 and word == "once")
    record.send(record.key() if ends else b"void")
    if not ends:
        time.sleep(SENT_S)
        raise ehkafka.SkipRecord("unwanted") if word == "skip" else ValueError("no luck")


def answered(record: Any, token: Any, after_s: float) -> None:
    """Send, and answer the token with how that ended."""
    try:
        failing(record)
    except Exception as error:
        threading.Timer(after_s, token.fail, (error,)).start()
    else:
        threading.Timer(after_s, token.finish).start()


def by_token(record: Any) -> None:
    """Leave the record in flight; send and answer from another thread."""
    threading.Thread(target=answered, args=(record, record.defer(), 0.0)).start()


def sends_and_defers(record: Any) -> None:
    """Send within the call, and answer afterwards from another thread."""
    answered(record, record.defer(), 0.05)


def giving_back(batch: Any) -> None:
    """Send for each record, and then skip or fail some."""
    for record in batch:
        try:
            failing(record)
        except ehkafka.SkipRecord:
            batch.skip(record, "unwanted")
        except ValueError as error:
            batch.fail(record, error)


async def giving_back_async(batch: Any) -> None:
    """Do it in a task."""
    await asyncio.sleep(0)
    giving_back(batch)


BATCH = {"batch_records_max": 8, "wait_s_max": 0.1}


@pytest.mark.parametrize(
    ("handler", "options"),
    [(by_token, {}), (sends_and_defers, {}), (giving_back, BATCH), (giving_back_async, BATCH)],
)
def test_an_answer_that_is_a_failure_has_sent_nothing(
    out: Any, handler: Any, options: dict[str, Any]
) -> None:
    """Of a token, or of a batch for one record, whatever it had sent for it; the others' are there once."""
    out.produce(KEYS)
    out.start(handler, to="out", retry=RETRY, on_failure=TO_DEAD, **options)
    wait_until(lambda: out.committed() == len(KEYS.split()))
    assert written(out) == GOOD


def raising_at_first(batch: Any) -> None:
    """Send for each record, and fail the whole call unless this is another attempt."""
    for record in batch:
        record.send(record.key() if record.attempt > 1 else b"void")
    time.sleep(SENT_S)
    if any(record.attempt == 1 for record in batch):
        raise ValueError("no luck")


def test_a_batch_that_raises_has_sent_nothing(out: Any) -> None:
    """Its records come again, and their outputs of that call are there."""
    out.produce("a b c d e")
    out.start(raising_at_first, to="out", retry=RETRY, batch_records_max=5, wait_s_max=2.0)
    wait_until(lambda: out.committed() == 5)
    assert written(out) == ["a", "b", "c", "d", "e"]


def test_an_output_of_one_record_of_a_batch_makes_a_letter_of_that_one_alone(
    out: Any, read_topic: Any
) -> None:
    """`record.send` says whose it is; what the batch returns is of all of them."""
    out.produce("a b c")

    def handle(batch: Any) -> None:
        for record in batch:
            if record.key() == b"b":
                record.send("refused")

    out.start(handle, to="out", batch_records_max=3, wait_s_max=5.0, on_failure=TO_DEAD)
    out.broker.fail_next(ApiKey.PRODUCE, *[KafkaError.MSG_SIZE_TOO_LARGE] * 2)
    wait_until(lambda: out.committed() == 3)
    assert [letter.key() for letter in read_topic("dead", 1)] == [b"b"]


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


@pytest.mark.parametrize(
    ("handler", "options"),
    [
        (sending_much, {"workers": 2}),
        (sending_much_async, {"workers": 2}),
        (sending_much, {"workers": ehkafka.Processes(1)}),
        (sending_much_in_batches, {"batch_records_max": 1}),
    ],
)
def test_a_call_that_sends_too_much_fails_with_the_limit_named(
    out: Any, events: Any, handler: Any, options: dict[str, Any]
) -> None:
    """It would hold all of it in memory; what others send is not in its way."""
    out.produce("much less")
    out.start(handler, to="out", on_failure=TO_DEAD, **options)
    wait_until(lambda: out.committed() == 2)
    assert [key for key, _ in read_all(out.broker.bootstrap, "dead")] == [b"much"]
    failed = [event.sentence() for event in events.of(HandlerFailed)]
    assert any("64 MB" in sentence or "64 MiB" in sentence for sentence in failed), failed


# --- calls that outlive their partition's assignment ---


class Calls:
    """Calls that send their offset; the first one of all waits until the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.lines: list[tuple[str, int]] = []

    def _waits(self, record: Any) -> bool:
        self.lines.append(("start", record.offset()))
        return record.key() == b"a" and self.lines.count(("start", 0)) == 1 and record.offset() == 0

    def plain(self, record: Any) -> str:
        """Run on a thread."""
        if self._waits(record):
            assert self.gate.wait(60.0)
        self.lines.append(("end", record.offset()))
        return str(record.offset())

    def sends(self, record: Any) -> None:
        """Send by the record; what is refused then is raised."""
        record.send(self.plain(record))

    async def stubborn(self, record: Any) -> str:
        """Run in a task, and do not end when it is cancelled."""
        if self._waits(record):
            while not self.gate.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
        self.lines.append(("end", record.offset()))
        return str(record.offset())

    def batch(self, batch: Any) -> None:
        """Run a batch of one."""
        for record in batch:
            self.sends(record)


SESSION = {"session.timeout.ms": 2_000}
TWICE = [(word, offset) for offset in (0, 0, 1) for word in ("start", "end")]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", {}),
        ("sends", {}),
        ("plain", {"acknowledged": "before_next"}),
        ("stubborn", {}),
        ("batch", {"batch_records_max": 1, "wait_s_max": 0.0}),
    ],
)
def test_what_an_old_call_sends_goes_nowhere(
    out: Any, events: Any, name: str, options: dict[str, Any]
) -> None:
    """Its partition is lost and comes back while it runs: each output of its key once, and in order."""
    calls = Calls()
    out.start(getattr(calls, name), to="out", workers=4, consumer=SESSION, **options)
    try:
        out.produce("a a")
        wait_until(lambda: ("start", 0) in calls.lines)
        out.broker.fail_next(ApiKey.HEARTBEAT, 25)
        wait_until(lambda: events.of(PartitionLost) and len(events.of(PartitionAssigned)) > 1)
        assert calls.lines == [("start", 0)]
    finally:
        calls.gate.set()
    wait_until(lambda: out.committed() == 2)
    assert calls.lines == TWICE
    assert [value for _, value in read_all(out.broker.bootstrap, "out")] == [b"0", b"1"]


def test_a_key_waits_no_more_for_outputs_that_are_given_up_with_their_epoch(out: Any, events: Any) -> None:
    """Its record had ended but for them when its partition was lost: it is handled again, and goes on."""
    calls = Calls()
    calls.gate.set()
    out.produce("a a")
    out.broker.fail_next(ApiKey.PRODUCE, *[KafkaError.NOT_ENOUGH_REPLICAS] * 5_000)
    out.start(calls.plain, to="out", workers=4, acknowledged="before_next", consumer=SESSION)
    wait_until(lambda: ("end", 0) in calls.lines)
    out.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_until(lambda: events.of(PartitionLost))
    wait_until(lambda: calls.lines.count(("end", 0)) == 2)
    assert ("start", 1) not in calls.lines
    out.broker.clear_failures(ApiKey.PRODUCE)
    wait_until(lambda: out.committed() == 2)
    assert calls.lines == TWICE
    assert [value for _, value in read_all(out.broker.bootstrap, "out")] == [b"0", b"1"]


# --- what is given back as outputs ---


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


def _app(handler: Any = None, **options: Any) -> ehkafka.App:
    app = ehkafka.App(group="g", start="earliest")
    if handler is not None:
        app.handler("in", **options)(handler)
    return app


@pytest.mark.parametrize("handler", [split, split_async, Split, split_text, split_batch, split_batch_async])
def test_what_a_handler_yields_is_sent_together(handler: Any) -> None:
    """All of it in its order; nothing of a call that fails on the way."""
    app, options = _app(), {"to": "out", "on_failure": ehkafka.Skip()}
    if handler in (split_batch, split_batch_async):
        app.batch_handler("in", wait_s_max=0.05, batch_records_max=1, **options)(handler)
    else:
        app.handler("in", **options)(handler)
    with run(app, partitions=1) as t:
        for value in ("abc", "x!y", "d"):
            t.send("in", value, key="k")
        t.wait()
        assert [(one.key, one.value) for one in t.outputs("out")] == [("k", letter) for letter in "abcd"]
        assert [one.value for one in t.skipped] == ["x!y"]


def a_list(_record: Any) -> Any:
    """Return messages that would be lost without a word."""
    return [None, Send("x")]


def another_record(_record: Any, call_next: Any) -> Any:
    """Hand on a record that was not received."""
    return call_next(make_record("other"))


@pytest.mark.parametrize("is_list", [True, False])
def test_what_cannot_be_an_output_fails_its_record(*, is_list: bool) -> None:
    """Messages without a topic to go to, and outputs of a record that was never received."""
    app = _app(a_list) if is_list else _app(lambda record: record.value(), to="out")
    if not is_list:
        app.use(another_record)
    words = r"returned a Send, .* add to=" if is_list else "with a new record instead of"
    with run(app) as t:
        t.send("in", "x")
        with pytest.raises(HandlerFailedError, match=words):
            t.wait()


# --- what cannot be sent soundly ---


def test_a_broker_without_producer_ids_ends_the_start(out: Any) -> None:
    """The order of outputs could not be kept there; dead letters alone may go without."""
    out.broker.disable(ApiKey.INIT_PRODUCER_ID)
    with pytest.raises(EndpointError, match="does not support producer IDs"):
        out.start(lambda record: record.value(), to="out")
