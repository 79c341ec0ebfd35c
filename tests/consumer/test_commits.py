"""What is committed, when, and who hears of it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing import EmbeddedBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

    Open = Callable[..., ehkafka.Consumer]
    Read = Callable[..., list[Any]]
    Committed = Callable[[str], dict[int, int]]


def poll_nothing(consumer: ehkafka.Consumer) -> None:
    """Poll where no record may come."""
    assert consumer.poll(0.02) is None


def test_a_bare_commit_takes_the_positions_at_the_call(
    open_consumer: Open, read: Read, committed: Committed
) -> None:
    """What the next poll returns is not in the commit before it, however late that is sent."""
    noted: list[Any] = []
    consumer = open_consumer(
        enable_auto_commit=False, on_commit=lambda error, parts: noted.append((error, parts[0].offset))
    )
    consumer.subscribe(["t"])
    read(consumer, 10)
    consumer.commit()
    read(consumer, 50)
    while not noted:
        consumer.poll(0.02)
    assert noted == [(None, 10)]
    assert committed("t") == {0: 10}


@pytest.mark.parametrize(
    "latest", [lambda consumer: consumer.poll(0), lambda consumer: consumer.consume(1, 0)]
)
def test_auto_commit_leaves_the_latest_poll_alone(
    open_consumer: Open, read: Read, committed: Committed, latest: Callable[[Any], object]
) -> None:
    """At an interval and at close, what the latest poll returned may still be in the program's hands."""
    consumer = open_consumer(auto_commit_interval_ms=50)
    consumer.subscribe(["t"])
    read(consumer, 10)
    time.sleep(0.1)  # an interval: whatever this waits for must not come
    latest(consumer)
    consumer.close()
    assert committed("t") == {0: 10}


def test_auto_commit_follows_the_polls(open_consumer: Open, read: Read, committed: Committed) -> None:
    """Once a poll returned nothing more, all is committed at the interval, without a close."""
    consumer = open_consumer(auto_commit_interval_ms=50)
    consumer.subscribe(["t"])
    read(consumer, 100)
    wait_until(lambda: committed("t") == {0: 100}, meanwhile=lambda: poll_nothing(consumer))


def test_close_flushes_only_what_was_asked_for(open_consumer: Open, read: Read, committed: Committed) -> None:
    """An asynchronous commit right before the close is stored, and its answer heard; nothing else is."""
    noted: list[Any] = []
    consumer = open_consumer(enable_auto_commit=False, on_commit=lambda error, _parts: noted.append(error))
    consumer.subscribe(["t"])
    messages = read(consumer, 20)
    for message in messages[:5]:
        consumer.commit(message)
    consumer.close()
    assert committed("t") == {0: 5}
    assert noted == [None] * 5


def test_a_program_that_does_not_poll_commits_all_the_same(
    open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Behind a commit whose answer no thread can take, the next one still goes out."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    messages = read(consumer, 10)
    consumer.commit(messages[3])
    consumer.commit(messages[7])
    wait_until(lambda: committed("t") == {0: 8})


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_thread_commits_while_another_polls_without_a_pause(
    open_consumer: Open, read: Read, committed: Committed, *, is_bare: bool
) -> None:
    """confluent-kafka lets the committing thread wait for as long as the other polls."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    last = read(consumer, 100)[-1]
    given = () if is_bare else (last,)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(consumer.commit(*given, asynchronous=False)))
    thread.start()
    wait_until(lambda: answers, meanwhile=lambda: poll_nothing(consumer))
    thread.join()
    assert [answer.offset for answer in answers[0]] == [100]
    assert committed("t") == {0: 100}


def test_a_callback_that_raises_drops_no_record(open_consumer: Open, read: Read) -> None:
    """The exception comes out of the call, and what was about to be returned comes with the next."""

    class OwnError(Exception):
        """What a program raises to end its loop."""

    def fail(*_arguments: Any) -> None:
        if len(offsets) < 100:
            raise OwnError

    offsets: list[int] = []
    consumer = open_consumer(enable_auto_commit=False, statistics_interval_ms=10, stats_cb=fail)
    consumer.subscribe(["t"])
    raised: list[OwnError] = []

    def consume() -> None:
        try:
            offsets.extend(message.offset() for message in consumer.consume(7, 0.05))
        except OwnError as error:
            raised.append(error)

    wait_until(lambda: len(offsets) >= 100, meanwhile=consume)
    assert raised
    assert offsets == list(range(100))


def test_a_deferred_synchronous_commit_returns_at_once(
    broker: EmbeddedBroker, open_consumer: Open, read: Read, committed: Committed
) -> None:
    """`sync_commit="deferred"`: it names what it will commit, and close sees to it."""
    consumer = open_consumer({"sync_commit": "deferred"}, enable_auto_commit=False)
    consumer.subscribe(["t"])
    messages = read(consumer, 10)
    broker.set_rtt(0.5)
    began_s = unstolen_s()
    answers = [consumer.commit(message, asynchronous=False) for message in messages]
    assert unstolen_s() - began_s < 0.4
    broker.set_rtt(0.0)
    assert [answer[0].offset for answer in answers] == list(range(1, 11))
    consumer.close()
    assert committed("t") == {0: 10}


def test_asynchronous_commits_of_each_message_share_requests(
    slow: KafkaProxy, open_consumer: Open, read: Read, committed: Committed
) -> None:
    """A hundred commits take a few requests, one at a time, and each is answered."""
    noted: list[Any] = []
    consumer = open_consumer(enable_auto_commit=False, on_commit=lambda error, _parts: noted.append(error))
    consumer.subscribe(["t"])
    for message in read(consumer, 100):
        consumer.commit(message)
        consumer.poll(0)
    consumer.close()
    assert noted == [None] * 100
    assert committed("t") == {0: 100}
    assert len(slow.commits) <= 4


def test_eight_threads_that_commit_synchronously_share_requests(
    slow: KafkaProxy, open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Each waits for its own answer; behind the first request all others go as one."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    messages = read(consumer, 8)
    answers: list[int] = []

    def commit(message: Any) -> None:
        answers.append(consumer.commit(message, asynchronous=False)[0].offset)

    threads = [threading.Thread(target=commit, args=(message,)) for message in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(1, 9))
    assert len(slow.commits) <= 3
    assert slow.most_commits_in_flight == 1


def test_close_waits_for_a_commit_on_its_way(
    slow: KafkaProxy, open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Another thread's synchronous commit is answered before the consumer goes."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    last = read(consumer, 10)[-1]
    answers: list[int] = []
    thread = threading.Thread(
        target=lambda: answers.append(consumer.commit(last, asynchronous=False)[0].offset)
    )
    thread.start()
    while not slow.commits_in_flight:
        time.sleep(0.005)
    consumer.close()
    thread.join()
    assert answers == [10]
    assert committed("t") == {0: 10}


def test_a_deserializing_consumer_commits_the_same_way(broker: EmbeddedBroker, committed: Committed) -> None:
    """confluent-kafka's deserializing, on top of the drop-in."""
    properties = broker.consumer_properties | {"group.id": "g", "auto.offset.reset": "earliest"}
    deserializers = {
        "value.deserializer": lambda value, _context: value.decode(),
        "enable.auto.commit": False,
    }
    found: list[Any] = []
    with ehkafka.DeserializingConsumer(properties | deserializers, contiguous=True) as consumer:
        consumer.subscribe(["t"])

        def take() -> None:
            if (message := consumer.poll(0.1)) is not None:
                found.append(message)

        wait_until(lambda: len(found) >= 10, meanwhile=take)
        consumer.store_offsets(found[1])
        consumer.commit(found[0])
    assert [message.value() for message in found] == ["v"] * 10
    assert committed("t") == {0: 2}
