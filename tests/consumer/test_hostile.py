"""What programs do that they should not: nothing is lost, nothing hangs, nothing shows a secret."""

from __future__ import annotations

import logging
import pickle
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import ehkafka
from ehkafka.testing import ApiKey
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing import EmbeddedBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

    Open = Callable[..., ehkafka.Consumer]
    Read = Callable[..., list[Any]]
    Committed = Callable[[str], dict[int, int]]

LIMIT_S = 15.0
CONTIGUOUS = {"contiguous": True}


class OwnError(Exception):
    """What a program raises itself."""


def test_auto_commit_does_not_pass_a_seek_back(open_consumer: Open, read: Read, committed: Committed) -> None:
    """A program that goes back to try again has not handled what polls had returned before."""
    consumer = open_consumer()
    consumer.assign([TopicPartition("t", 0, 0)])
    read(consumer, 10)
    read(consumer, 1)  # a later poll: the ten count as handled
    consumer.seek(TopicPartition("t", 0, 5))
    consumer.poll(0)
    consumer.close()
    assert committed("t").get(0, 0) <= 5


def test_auto_commit_leaves_out_what_is_not_ours_any_more(
    open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Of a partition that the program has given back, nothing is committed at close."""
    consumer = open_consumer()
    consumer.assign([TopicPartition("t4", 0, 0), TopicPartition("t4", 1, 0)])
    read(consumer, 20)
    consumer.incremental_unassign([TopicPartition("t4", 0)])
    consumer.consume(1, 0)
    consumer.close()
    assert 0 not in committed("t4")


def test_threads_that_commit_while_the_consumer_closes(
    open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Each call is answered or says that the consumer is closed; what was answered is stored."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    last = read(consumer, 100)[-1]
    answered: list[int] = []
    ended: list[BaseException] = []

    def commit_once(number: int) -> None:
        if number % 3 == 0:
            consumer.commit(last)
        elif number % 3 == 1:
            with suppress(KafkaException):  # nothing new to commit
                consumer.commit(asynchronous=False)
        else:
            consumer.commit(last, asynchronous=False)
            answered.append(number)

    def commit(number: int) -> None:
        try:
            while True:
                commit_once(number)
        except RuntimeError as error:
            ended.append(error)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answered) >= 20)
    consumer.close()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [str(error) for error in ended] == ["Consumer closed"] * 6
    assert committed("t") == {0: 100}


def test_a_thread_whose_commit_the_poller_sent_is_answered_by_close(
    slow: KafkaProxy, open_consumer: Open, read: Read
) -> None:
    """Only polling brings that answer; closing does, too."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    last = read(consumer, 100)[-1]
    answers: list[Any] = []
    thread = threading.Timer(0.05, lambda: answers.append(consumer.commit(last, asynchronous=False)))
    thread.start()
    while not slow.commits_in_flight:
        consumer.poll(0.5)
    assert not answers
    consumer.close()
    thread.join(LIMIT_S)
    assert [place.offset for place in answers[0]] == [100]


@pytest.mark.parametrize("way", ["close", "seek", "assign", "unassign", "incremental_unassign"])
def test_what_a_callback_kept_back_is_not_returned_elsewhere(open_consumer: Open, way: str) -> None:
    """Records behind an exception lie where the program was: not where it is, nor in a closed consumer."""

    def fail(*_arguments: Any) -> None:
        raise OwnError

    consumer = open_consumer(enable_auto_commit=False, statistics_interval_ms=10, stats_cb=fail)
    consumer.assign([TopicPartition("t", 0, 0)])

    def consume() -> None:
        with suppress(OwnError):
            consumer.consume(7, 0.05)

    wait_until(lambda: consumer._kept, meanwhile=consume)
    place = TopicPartition("t", 0, 90)
    if way != "close":
        getattr(consumer, way)(*{"seek": (place,), "unassign": ()}.get(way, ([place],)))
        assert not consumer._kept
    with suppress(OwnError):  # the callback may come once more
        consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


def test_a_callback_may_close(
    open_consumer: Open, read: Read, committed: Committed, caplog: pytest.LogCaptureFixture
) -> None:
    """The consumer is closed when the call that called back is over, whatever is on its way; logged once.

    confluent-kafka stands still when `on_commit` closes while other commits are unanswered.
    """

    def close(*_arguments: Any) -> None:
        consumer.close()

    caplog.set_level(logging.INFO, "ehkafka.consumer")
    consumer = open_consumer(enable_auto_commit=False, on_commit=close)
    consumer.subscribe(["t"], on_revoke=close)
    for message in read(consumer, 10):
        consumer.commit(message)
    with pytest.raises(RuntimeError, match="Consumer closed"):  # noqa: PT012 - one of these polls is the first
        while True:
            consumer.poll(0.1)
    assert committed("t") == {0: 10}
    assert sum(getattr(record, "deviation", "") == "callbacks" for record in caplog.records) == 1


def test_an_exception_in_a_with_block_closes(open_consumer: Open, read: Read, committed: Committed) -> None:
    """The block's own exception comes out, and what was asked to be committed is."""
    consumer = open_consumer(enable_auto_commit=False)
    with pytest.raises(OwnError), consumer:  # noqa: PT012 - the block is what is tested
        consumer.subscribe(["t"])
        consumer.commit(read(consumer, 10)[-1])
        raise OwnError
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)
    assert committed("t") == {0: 10}


def test_no_secret_is_shown_or_pickled(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the consumer nor its parts show the password that they were given."""
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "app",
        "sasl.password": "very-secret-password",
        "log_level": 0,
    }
    with caplog.at_level(logging.DEBUG), ehkafka.Consumer(properties) as consumer:
        assert "very-secret" not in repr(consumer) + _everything(consumer) + caplog.text
        with pytest.raises(TypeError):
            pickle.dumps(consumer)


def _everything(thing: Any, depth: int = 0) -> str:
    shown = repr(thing)
    if depth < 5 and type(thing).__module__.startswith("ehkafka.consumer"):
        inside = getattr(thing, "__dict__", {}).values()
        shown += "".join(_everything(inner, depth + 1) for inner in inside)
    return shown


def test_what_it_does_in_its_own_way_is_logged_once(
    open_consumer: Open, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it does."""
    with caplog.at_level(logging.INFO, "ehkafka.consumer"):
        consumer = open_consumer(auto_commit_interval_ms=10)
        consumer.subscribe(["t"])
        for message in read(consumer, 5):
            consumer.commit(message, asynchronous=False)
        for count in range(5, 9):
            read(consumer, 1)
            assert consumer.commit(asynchronous=False)[0].offset == count + 1
        consumer.close()
    reported = [record.deviation for record in caplog.records if hasattr(record, "deviation")]
    assert sorted(reported) == ["auto_commit", "bare_commit", "coalescing"]


def test_a_seek_back_leaves_open_what_lies_before(open_consumer: Open, read: Read) -> None:
    """Contiguous: records below the seek were delivered, too, and no thread has marked them."""
    consumer = open_consumer(CONTIGUOUS, enable_auto_commit=False)
    consumer.subscribe(["t"])
    before = read(consumer, 10)
    consumer.store_offsets(before[1])
    consumer.seek(TopicPartition("t", 0, 5))
    for message in read(consumer, 5):
        consumer.store_offsets(message)
    assert consumer.commit(asynchronous=False)[0].offset == 0
    for number in (0, 2, 3):
        consumer.store_offsets(before[number])
    assert consumer.commit(asynchronous=False)[0].offset == 4
    assert consumer.commit(before[4], asynchronous=False)[0].offset == 10


def test_a_late_mark_commits_nothing_of_a_partition_that_is_gone(
    open_consumer: Open, read: Read, committed: Committed
) -> None:
    """Contiguous: its new owner knows better, and records before it were never marked."""
    consumer = open_consumer(CONTIGUOUS, enable_auto_commit=False)
    consumer.assign([TopicPartition("t4", 0, 0), TopicPartition("t4", 1, 0)])
    first: dict[int, list[Any]] = {0: [], 1: []}
    while not all(len(found) > 3 for found in first.values()):
        for message in read(consumer, 1):
            first[message.partition()].append(message)
    consumer.incremental_unassign([TopicPartition("t4", 0)])
    with pytest.raises(KafkaException) as refused:
        consumer.commit(first[0][3], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError._NO_OFFSET
    both = [TopicPartition("t4", 0, 3), TopicPartition("t4", 1, 3), TopicPartition("t4", 1, -1001)]
    assert [p.offset for p in consumer.commit(offsets=both, asynchronous=False)] == [-1001, 0]
    assert committed("t4") == {1: 0}


def test_foreign_messages_mark_nothing(open_consumer: Open, read: Read) -> None:
    """Contiguous: of another consumer's topic, or of a record that was never delivered here."""
    other = open_consumer(enable_auto_commit=False, group_id="h")
    other.assign([TopicPartition("t4", 0, 0), TopicPartition("t", 0, 50)])
    foreign = read(other, 60)
    consumer = open_consumer(CONTIGUOUS, enable_auto_commit=False)
    consumer.assign([TopicPartition("t", 0, 0)])
    read(consumer, 10)
    for message in foreign:
        consumer.store_offsets(message)
    assert consumer.commit(asynchronous=False)[0].offset == 0


def test_marks_that_never_come_are_reported(
    open_consumer: Open, read: Read, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contiguous: a program that forgot to mark stands still; the log says why, once in a while."""
    monkeypatch.setattr("ehkafka.consumer.marks.MISSING_S", 0.05)
    consumer = open_consumer({**CONTIGUOUS, "unmarked_records_max": 20}, enable_auto_commit=False)
    consumer.subscribe(["t"])
    consumer.store_offsets(read(consumer, 20)[0])
    wait_until(lambda: "t[0] is paused" in caplog.text, meanwhile=lambda: consumer.poll(0.02))
    assert "the oldest at offset 1" in caplog.text


@pytest.mark.parametrize("choices", [CONTIGUOUS, {}], ids=["contiguous", "as librdkafka"])
def test_an_auto_commit_is_silent_where_nothing_moves(
    open_consumer: Open, read: Read, broker: EmbeddedBroker, choices: dict[str, Any]
) -> None:
    """`on_commit` hears of commits, not of intervals, also while the answer takes many of them."""
    noted: list[Any] = []
    consumer = open_consumer(
        choices,
        auto_commit_interval_ms=10,
        enable_auto_offset_store=False,
        on_commit=lambda error, parts: noted.append((error, parts)),
    )
    consumer.subscribe(["t"])
    first = read(consumer, 10)[0]
    broker.delay_next(ApiKey.OFFSET_COMMIT, 0.4)
    consumer.store_offsets(first)
    wait_until(lambda: noted, meanwhile=lambda: consumer.poll(0.02))
    for _ in range(10):
        consumer.poll(0.02)
    consumer.close()
    assert [(error, parts[0].offset) for error, parts in noted] == [(None, 1)]
