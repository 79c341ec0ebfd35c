"""`contiguous=True`: records finished in any order, by any thread, and no commit past one that is not."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

import ehkafka
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing import EmbeddedBroker

    Open = Callable[..., ehkafka.Consumer]
    Read = Callable[..., list[Any]]
    Committed = Callable[[str], dict[int, int]]

CONTIGUOUS = {"contiguous": True}


def test_a_commit_stays_below_what_is_not_marked(
    open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Record 3 is not done: whatever is marked behind it, the commit stays there; then it jumps."""
    consumer = open_consumer(CONTIGUOUS, enable_auto_commit=False)
    consumer.subscribe(["t"])
    messages = read(consumer, 10)
    for message in messages:
        if message.offset() != 3:
            consumer.store_offsets(message)
    assert [p.offset for p in consumer.commit(asynchronous=False)] == [3]
    assert [p.offset for p in consumer.commit(messages[3], asynchronous=False)] == [10]
    assert committed("t") == {0: 10}


def test_offsets_stand_for_the_record_before(open_consumer: Open, read: Read) -> None:
    """`commit(offsets=…)` marks one record as `commit(message)` does, not all below."""
    consumer = open_consumer(CONTIGUOUS, enable_auto_commit=False)
    consumer.subscribe(["t"])
    read(consumer, 5)
    assert consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)[0].offset == 0
    assert consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)[0].offset == 1


def test_threads_mark_in_any_order(open_consumer: Open, read: Read, committed: Committed) -> None:
    """Eight threads finish four partitions' records at random; auto commit follows up to the end."""
    consumer = open_consumer(CONTIGUOUS, auto_commit_interval_ms=20)
    consumer.subscribe(["t4"])
    messages = read(consumer, 100)
    ends: dict[int, int] = {}
    for message in messages:
        ends[message.partition()] = message.offset() + 1
    random.Random(7).shuffle(messages)

    def finish(mine: list[Any]) -> None:
        for message in mine:
            consumer.store_offsets(message)

    threads = [threading.Thread(target=finish, args=(messages[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def poll_nothing() -> None:
        assert consumer.poll(0.02) is None

    wait_until(lambda: committed("t4") == ends, meanwhile=poll_nothing)


def test_marks_that_stay_out_pause_the_partition(open_consumer: Open, read: Read) -> None:
    """No more than the bound is delivered and not marked; marks let it go on."""
    consumer = open_consumer({**CONTIGUOUS, "unmarked_records_max": 20}, enable_auto_commit=False)
    consumer.subscribe(["t"])
    held = read(consumer, 20)
    for _ in range(5):
        held += consumer.consume(10, 0.02)
    assert len(held) <= 21  # one more may come with the call that looks for callbacks
    for message in held:
        consumer.store_offsets(message)
    assert [message.offset() for message in read(consumer, 5)] == list(range(len(held), len(held) + 5))


def test_a_partition_that_is_not_marked_starves_no_other(open_consumer: Open, broker: EmbeddedBroker) -> None:
    """One fills half of the bound, also where it comes first: the other one's records go on for ever."""
    broker.create_topic("two", 2)
    for partition in (0, 1):
        broker.produce("two", [(None, b"%d" % number) for number in range(200)], partition=partition)
    consumer = open_consumer({**CONTIGUOUS, "unmarked_records_max": 20}, enable_auto_commit=False)
    consumer.assign([TopicPartition("two", partition, 0) for partition in (0, 1)])
    marked: list[int] = []
    left: list[int] = []

    def take() -> None:
        for message in consumer.consume(20, 0.05):
            # The first one that comes is the one that is never marked.
            if not left or message.partition() == unmarked[0]:
                unmarked[:] = [message.partition()]
                left.append(message.offset())
            else:
                marked.append(message.offset())
                consumer.store_offsets(message)
        assert len(left) <= 21

    unmarked: list[int] = []
    wait_until(lambda: len(marked) == 200, lambda: f"{len(marked)} marked, {len(left)} left", meanwhile=take)
    assert marked == list(range(200))


@pytest.mark.parametrize("where", ["key", "headers"])
def test_unmarked_records_are_bounded_by_all_their_bytes(
    open_consumer: Open, broker: EmbeddedBroker, where: str
) -> None:
    """Keys and headers count: 80 records of 50 kB are not delivered where 2 MB may be unmarked."""
    large = b"x" * 50_000
    key, headers = (large, None) if where == "key" else (b"k", [("large", large)])
    broker.create_topic("large", 1)
    broker.produce("large", [(key, b"v")] * 80, headers=headers)
    consumer = open_consumer({**CONTIGUOUS, "unmarked_bytes_max": 2_000_000}, enable_auto_commit=False)
    consumer.subscribe(["large"])
    held: list[Any] = []
    ends_s = time.monotonic() + 15.0
    while len(held) < 20 and time.monotonic() < ends_s:
        held += consumer.consume(10, 0.05)
    for _ in range(10):
        held += consumer.consume(10, 0.02)
    assert 15 <= len(held) <= 42
    for message in held:
        consumer.store_offsets(message)
    while len(held) < 80 and time.monotonic() < ends_s:
        for message in consumer.consume(10, 0.05):
            held.append(message)
            consumer.store_offsets(message)
    assert [message.offset() for message in held] == list(range(80))


def test_a_record_given_again_is_open_again(open_consumer: Open, read: Read) -> None:
    """After a seek back, what was marked before does not let the commit pass what was given again."""
    consumer = open_consumer(CONTIGUOUS, enable_auto_commit=False)
    consumer.subscribe(["t"])
    messages = read(consumer, 10)
    for message in messages:
        consumer.store_offsets(message)
    consumer.seek(TopicPartition("t", 0, 5))
    again = read(consumer, 5)
    assert [message.offset() for message in again] == [5, 6, 7, 8, 9]
    assert consumer.commit(asynchronous=False)[0].offset == 5


def test_adapt_hands_a_message_of_its_own(broker: EmbeddedBroker) -> None:
    """A handler written against `confluent_kafka.Message` gets one, and may set what it likes in it."""
    from confluent_kafka import Message  # noqa: PLC0415 - the type is the point

    seen: list[Any] = []
    done = threading.Event()

    def handle(message: Message) -> None:
        """Keep what was given."""
        message.set_value(None)
        seen.append(isinstance(message, Message))
        if len(seen) == 100:
            done.set()

    adapted = ehkafka.adapt(handle)
    assert adapted.__name__ == "handle"
    properties = {name: value for name, value in broker.consumer_properties.items() if "servers" not in name}
    app = ehkafka.App(
        group="a", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest", consumer=properties
    )
    app.handler("t")(adapted)
    app.start()
    assert done.wait(15.0)
    app.stop()
    assert all(seen)
