"""Ends of transactions: offsets without records, which commits pass once nothing below is unfinished."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import ehkafka
from ehkafka.embedded.topics import produce
from tests.integration.sent import decided_ends
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker

RECORDS = 3
# A transaction takes the offsets of its records and one for its marker.
TAKEN = RECORDS + 1


def transact(stage: Any, endings: str) -> None:
    """Write a transaction for each letter: `c` is committed, `a` is aborted."""
    producer = Producer(
        {"bootstrap.servers": stage.broker.bootstrap, "transactional.id": stage.topic, "log_level": 0}
    )
    producer.init_transactions(20.0)
    for ending in endings:
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(stage.topic, b"x", b"key-%d" % number, partition=0)
        producer.flush(20.0)  # what is still here when a transaction is aborted never gets an offset
        (producer.commit_transaction if ending == "c" else producer.abort_transaction)(20.0)
    # The coordinator answers before the last marker is in the log.
    decided_ends(stage.broker.bootstrap, stage.topic, 1)


def age_out(stage: Any, end: int) -> None:
    """Delete every record, and add one behind."""
    stage.broker.delete_records(stage.topic, 0, end)
    produce(stage.broker.bootstrap, stage.topic, [(b"k", b"after")], partition=0)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_app_commits_past_the_marker_so_that_nothing_is_missing_when_records_age_out(
    narrow: Any, isolation: str
) -> None:
    """Without a record left there is no gap, lag is 0, and the next start goes on."""
    transact(narrow, "cc")
    options = {"commit_interval_s": 0.1, "consumer": {"isolation.level": isolation}}
    app = narrow.app(**options)
    app.start()
    narrow.wait_until_committed({0: 2 * TAKEN})
    wait_until(lambda: app.snapshot().lag_records == 0, lambda: app.snapshot().partitions)
    app.stop()
    age_out(narrow, 2 * TAKEN)
    seen: list[int] = []
    again = narrow.app(lambda record: seen.append(record.offset()), **options)
    again.start()
    narrow.wait_until_committed({0: 2 * TAKEN + 1})
    again.stop()
    assert seen == [2 * TAKEN]
    narrow.judged()


def test_behind_aborted_transactions_the_commit_reaches_the_end_of_the_log(narrow: Any) -> None:
    """Nothing of them is ever handed out, before the first record or after the last one."""
    transact(narrow, "aa")
    app = narrow.app(commit_interval_s=0.1)
    app.start()
    narrow.wait_until_committed({0: 2 * TAKEN})
    transact(narrow, "caa")
    narrow.wait_until_committed({0: 5 * TAKEN})
    app.stop()
    transact(narrow, "aaa")
    narrow.app(commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 8 * TAKEN})


def test_the_marker_is_not_passed_before_the_records_are_finished(narrow: Any) -> None:
    """Two of three records are finished and the client is at the log's end: the commit waits."""
    transact(narrow, "ca")
    go: list[bool] = []
    app = narrow.app(
        lambda record: wait_until(lambda: record.offset() != 1 or go, "let go"),
        commit_interval_s=0.05,
        workers=4,
    )
    app.start()
    narrow.wait_until_committed({0: 1})
    time.sleep(1.5)  # longer than the look at the client's position is apart
    assert narrow.committed() == {0: 1}
    go.append(True)
    narrow.wait_until_committed({0: 2 * TAKEN})


def test_a_run_that_ends_at_once_commits_past_the_marker(narrow: Any) -> None:
    """The last look comes before the stop's drain, which takes what it does not handle."""
    transact(narrow, "c")
    seen: list[int] = []
    app = narrow.app(lambda record: seen.append(record.offset()), commit_interval_s=600.0)
    app.start()
    wait_until(lambda: len(seen) == RECORDS, lambda: seen)
    app.stop()
    narrow.wait_until_committed({0: TAKEN})


@pytest.mark.parametrize("contiguous", [False, True])
def test_a_drop_in_commits_past_the_marker(narrow: Any, contiguous: bool) -> None:
    """As confluent's automatic commits do; with marks as well, once all are marked."""
    transact(narrow, "aca")
    properties = {
        "bootstrap.servers": narrow.broker.bootstrap,
        "group.id": narrow.group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
        "log_level": 0,
    }
    consumer = ehkafka.Consumer(properties, contiguous=contiguous)
    consumer.subscribe([narrow.topic])
    try:
        messages = poll_until(consumer, lambda messages: len(messages) == RECORDS)
        if contiguous:
            for message in messages[:-1]:
                consumer.store_offsets(message)
            poll_until(consumer, lambda _messages: narrow.committed() == {0: TAKEN + RECORDS - 1})
            consumer.store_offsets(messages[-1])
        poll_until(consumer, lambda _messages: narrow.committed() == {0: 3 * TAKEN})
    finally:
        consumer.close()


def poll_until(consumer: Any, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Poll until it is enough, and return the messages."""
    messages: list[Any] = []

    def take() -> None:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            messages.append(message)

    wait_until(lambda: is_enough(messages), lambda: f"enough of {len(messages)} records", meanwhile=take)
    return messages
