"""Every documented call of a consumer, in one of two classes; prints what each of them did, line by line.

    python calls.py confluent_kafka|ehkafka SCENARIO BOOTSTRAP TOPIC PROPERTIES

The topic has two partitions of ten records each. Run by `test_contract.py`, which compares the lines.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition
from confluent_kafka import Consumer as Bare
from speaking import (
    BASE,
    CONSUMER,
    LIMIT_S,
    SCENARIO,
    TOPIC,
    at,
    call,
    open_consumer,
    read,
    report,
    shown,
    until,
)

from tests.kit.waiting import wait_until


def reading() -> None:
    """Subscribe, poll, consume, position, pause, seek, and what else only reads."""
    noted: set[str] = set()
    consumer = open_consumer(
        statistics_interval_ms=50,
        # How many come before the topic is known is chance.
        stats_cb=lambda text: noted.update(f"statistics {topic}" for topic in json.loads(text)["topics"]),
        error_cb=lambda error: noted.add(error.name()),
        throttle_cb=lambda event: noted.add(type(event).__name__),
    )
    report("memberid before", consumer.memberid())
    call("poll before subscribe", consumer.poll, 0)
    call("consume nothing", consumer.consume, 0, 0)
    call("consume too many", consumer.consume, 2_000_000, 0)
    call("consume too few", consumer.consume, -1, 0)
    call("subscribe with no callback", consumer.subscribe, [TOPIC], on_assign=None)
    call("subscribe to nothing", consumer.subscribe, [])
    report("subscribe", consumer.subscribe([TOPIC]))
    records = read(consumer, 20)
    report("records", sorted(map(shown, records)))
    report("memberid", isinstance(consumer.memberid(), str))
    report("metadata", type(consumer.consumer_group_metadata()).__name__)
    report("assignment", sorted(consumer.assignment()))
    call("position", consumer.position, [at(0), at(1), at(9)])
    call("watermarks", consumer.get_watermark_offsets, at(0), 5.0)
    call("watermarks cached", consumer.get_watermark_offsets, at(0), cached=True)
    call("times", consumer.offsets_for_times, [at(0, 4_000_000_000_000)], timeout=5.0)
    report("topics", sorted(consumer.list_topics(timeout=5.0).topics[TOPIC].partitions))
    report("cluster", isinstance(consumer.cluster_id(timeout=5.0), str))
    call("pause", consumer.pause, [at(0)])
    call("pause what is not ours", consumer.pause, [at(9)])
    call("resume", consumer.resume, [at(0)])
    call("seek", consumer.seek, at(0, 7))
    call("position after seek", consumer.position, [at(0)])
    report("read again", read(consumer, 3))
    call("seek to the beginning", consumer.seek, at(1, OFFSET_BEGINNING))
    report("read again", read(consumer, 10))
    call("seek what is not ours", consumer.seek, at(9, 0))
    call("committed", consumer.committed, [at(0), at(1)], timeout=5.0)
    until(consumer, lambda: any(line.startswith("statistics") for line in noted))
    report("heard", sorted(noted))
    call("unsubscribe", consumer.unsubscribe)
    call("subscribe again", consumer.subscribe, [TOPIC])
    call("unsubscribe", consumer.unsubscribe)
    call("close", consumer.close)


def committing() -> None:
    """Commit and store in every way, and what the callback hears."""
    noted: list[str] = []
    consumer = open_consumer(on_commit=lambda error, parts: noted.append(f"{shown(error)} {shown(parts)}"))

    def note(what: str) -> None:
        until(consumer, lambda: noted)
        report(f"{what} heard", noted[:])
        noted.clear()

    call("bare, nothing subscribed", consumer.commit, asynchronous=False)
    consumer.subscribe([TOPIC])
    call("bare, nothing polled", consumer.commit, asynchronous=False)
    records = read(consumer, 20)
    last = {message.partition(): message for message in records}
    call("commit a message", consumer.commit, last[0], asynchronous=False)
    call("committed", consumer.committed, [at(0), at(1)], timeout=5.0)
    call("commit offsets", consumer.commit, offsets=[at(0, 3), at(1, 4)], asynchronous=False)
    described = TopicPartition(TOPIC, 0, 5, "words")
    call("commit with metadata", consumer.commit, offsets=[described], asynchronous=False)
    epoch = TopicPartition(TOPIC, 1, 5, "more words", 0)
    call("commit with a leader epoch", consumer.commit, offsets=[epoch], asynchronous=False)
    call("committed", consumer.committed, [at(0), at(1)], timeout=5.0)
    call("commit by position", consumer.commit, None, [at(0, 2)], False)
    call("commit an offset that is none", consumer.commit, offsets=[at(0, -5)], asynchronous=False)
    call(
        "commit an unknown topic", consumer.commit, offsets=[TopicPartition("none", 0, 1)], asynchronous=False
    )
    call("commit a message, asynchronously", consumer.commit, last[1])
    note("a message")
    call("commit offsets, asynchronously", consumer.commit, offsets=[at(1, 2), at(0, 1)])
    note("offsets")
    call("bare", consumer.commit)
    note("bare")
    call("bare again", consumer.commit)
    note("bare again")
    call("bare and synchronous", consumer.commit, asynchronous=False)
    call("go back", consumer.commit, offsets=[at(0, 0)], asynchronous=False)
    call("bare after going back", consumer.commit, asynchronous=False)
    call("store where that is off", consumer.store_offsets, last[0])
    call("committed", consumer.committed, [at(0), at(1)], timeout=5.0)
    call("commit before close", consumer.commit, offsets=[at(0, 6)])
    call("close", consumer.close)
    report("close heard", noted)
    storing()


def storing() -> None:
    """Store offsets, commit them without arguments, and let closing commit."""
    consumer = open_consumer("storing", enable_auto_offset_store=False)
    consumer.subscribe([TOPIC])
    last = {message.partition(): message for message in read(consumer, 20)}
    call("bare, nothing stored", consumer.commit, asynchronous=False)
    call("store nothing", consumer.store_offsets)
    call("store both", consumer.store_offsets, last[0], [at(0, 1)])
    call("store a message", consumer.store_offsets, last[0])
    call("store offsets", consumer.store_offsets, offsets=[at(1, 4)])
    call("store what is not ours", consumer.store_offsets, offsets=[at(9, 4)])
    call("bare", consumer.commit, asynchronous=False)
    call("close", consumer.close)
    consumer = open_consumer(
        "storing", enable_auto_offset_store=False, enable_auto_commit=True, auto_commit_interval_ms=100
    )
    noted: list[int] = []
    consumer.subscribe([TOPIC], on_assign=lambda _consumer, partitions: noted.append(len(partitions)))
    until(consumer, lambda: noted)
    call("store offsets", consumer.store_offsets, offsets=[at(1, 7)])
    until(consumer, lambda: consumer.committed([at(1)], timeout=5.0)[0].offset == 7)
    call("committed by itself", consumer.committed, [at(0), at(1)], timeout=5.0)
    call("store offsets", consumer.store_offsets, offsets=[at(1, 9)])
    call("close", consumer.close)
    consumer = open_consumer("storing")
    call("committed at close", consumer.committed, [at(0), at(1)], timeout=5.0)
    consumer.close()


def assigning() -> None:
    """Assign by hand, in both ways; construct in all ways."""
    consumer = open_consumer("assigning")
    call("assign", consumer.assign, [at(0, 5)])
    report("assignment", sorted(consumer.assignment()))
    report("records", read(consumer, 5))
    call("bare", consumer.commit, asynchronous=False)
    call("assign anew", consumer.assign, [at(1, 8)])
    report("records", read(consumer, 2))
    call("bare", consumer.commit, asynchronous=False)
    call("unassign", consumer.unassign)
    call("bare without assignment", consumer.commit, asynchronous=False)
    call("incremental assign", consumer.incremental_assign, [at(0, 8)])
    report("records", read(consumer, 2))
    call("incremental assign more", consumer.incremental_assign, [at(1, OFFSET_END)])
    call("incremental assign twice", consumer.incremental_assign, [at(1)])
    report("assignment", sorted(p.partition for p in consumer.assignment()))
    call("incremental unassign", consumer.incremental_unassign, [at(0)])
    call("incremental unassign again", consumer.incremental_unassign, [at(0)])
    report("assignment", [p.partition for p in consumer.assignment()])
    call("commit what is not assigned", consumer.commit, offsets=[at(0, 1)], asynchronous=False)
    call("context manager", lambda: consumer.__enter__() is consumer)
    call("leave it", consumer.__exit__, None, None, None)
    constructed()


def constructed() -> None:
    """Construct in ways that work and in ways that do not."""
    for what, arguments, named in (
        ("without group", (BASE,), {}),
        ("with a typo", (BASE | {"group.id": "g", "sesion.timeout.ms": 1},), {}),
        ("with a bad interval", (BASE | {"group.id": "g", "auto.commit.interval.ms": "x"},), {}),
    ):
        call(f"construct {what}", CONSUMER, *arguments, **named)
    for what, arguments, named in (
        ("by keywords", (), BASE | {"group.id": "g"}),
        ("by both", ({"group.id": "g"},), BASE),
        ("with topic settings inside", (BASE | {"group.id": "g", "default.topic.config": {}},), {}),
        ("with nothing where nothing is needed", (BASE | {"group.id": "g", "client.id": None},), {}),
    ):
        consumer = CONSUMER(*arguments, **named)
        report(f"construct {what}", isinstance(consumer, Bare))
        consumer.close()


def rebalancing(**properties: Any) -> None:
    """Two members: who is informed of what, and what committing in the callbacks does; patterns."""
    noted: list[str] = []

    def note(what: str) -> Any:
        def callback(consumer: Bare, partitions: list[TopicPartition]) -> None:
            numbers = sorted(p.partition for p in partitions)
            if numbers:  # a cooperative group may report of nothing any number of times
                noted.append(f"{what} {numbers} {consumer is first}")
            if what == "revoked":
                with suppress(KafkaException):  # the embedded broker takes none while a group rebalances
                    consumer.commit(offsets=[at(number, 3) for number in numbers], asynchronous=False)

        return callback

    first = open_consumer("rebalancing", **properties)
    first.subscribe(
        [f"^{TOPIC}.*"], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost")
    )
    read(first, 20)
    report("joined", noted[:])
    noted.clear()
    second = open_consumer("rebalancing", **properties)
    second.subscribe([TOPIC])
    wait_until(
        lambda: len(second.assignment()) == 1 == len(first.assignment()),
        timeout_s=LIMIT_S,
        meanwhile=lambda: (first.poll(0.02), second.poll(0.02)),
    )
    # Who gets which partition depends on the names that the broker gives.
    report("shared", [line.translate(str.maketrans("01", "xx")) for line in noted])
    noted.clear()
    call("close", second.close)
    until(first, lambda: len(first.assignment()) == 2)
    report("alone again", [line.translate(str.maketrans("01", "xx")) for line in noted])
    noted.clear()
    call("close", first.close)
    report("closed", noted)
    assigning_in_callbacks(**properties)


def assigning_in_callbacks(**properties: Any) -> None:
    """A callback that assigns itself, with a start of its own."""

    def assign(consumer: Bare, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 8
        if properties:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def revoke(consumer: Bare, partitions: list[TopicPartition]) -> None:
        if properties:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    consumer = open_consumer("assigning", **properties)
    consumer.subscribe([TOPIC], on_assign=assign, on_revoke=revoke)
    report("from a start of its own", sorted(map(shown, read(consumer, 4))))
    call("bare", consumer.commit, asynchronous=False)
    call("close", consumer.close)


def surprising() -> None:
    """What programs do by mistake: raise in callbacks, change what they are given, seek back, mix up."""
    raised: list[str] = []

    def fail(what: str) -> Any:
        def callback(*_arguments: Any) -> None:
            if what not in raised:
                raised.append(what)
                raise LookupError(what)

        return callback

    def polled(consumer: Bare, what: str) -> None:
        ends_s = time.monotonic() + LIMIT_S
        while what not in raised and time.monotonic() < ends_s:
            try:
                consumer.poll(0.05)
            except LookupError as error:
                report("poll raised", repr(error))

    consumer = open_consumer("surprising", on_commit=fail("commit"))
    consumer.subscribe([TOPIC], on_assign=fail("assign"), on_revoke=fail("revoke"))
    polled(consumer, "assign")
    report("assigned all the same", sorted(consumer.assignment()))
    report("records", len(read(consumer, 15)))
    consumer.commit(offsets=[at(0, 1), at(1, 1)])
    polled(consumer, "commit")
    call("close", consumer.close)
    report("raised", raised)
    call("poll after that", consumer.poll, 0)
    seeking()
    subscribing()


def seeking() -> None:
    """Go back: what is committed then."""
    consumer = open_consumer("seeking")
    consumer.assign([at(0)])
    read(consumer, 8)
    consumer.seek(at(0, 3))
    call("bare after a seek back", consumer.commit, asynchronous=False)
    report("again", read(consumer, 2))
    call("bare after reading again", consumer.commit, asynchronous=False)
    consumer.seek(at(0, 9))
    report("ahead", read(consumer, 1))
    call("bare after a seek ahead", consumer.commit, asynchronous=False)
    call("close", consumer.close)


def subscribing() -> None:
    """Change the list of partitions that is given; leave and come back; assign with a subscription."""

    def change(_consumer: Bare, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 8  # without an assign this counts for nothing

    consumer = open_consumer("subscribing")
    consumer.subscribe([TOPIC], on_assign=change)
    report("from the beginning", len(read(consumer, 20)))
    consumer.unsubscribe()
    until(consumer, lambda: not consumer.assignment())
    call("bare after unsubscribing", consumer.commit, asynchronous=False)
    consumer.subscribe([TOPIC])
    report("back again", len(read(consumer, 20)))
    call("assign with it", consumer.assign, [at(1, 6)])
    report("of that", read(consumer, 4))
    call("bare", consumer.commit, asynchronous=False)
    call("close", consumer.close)


def failing() -> None:
    """No broker answers: the error callback."""
    noted: set[str] = set()
    consumer = CONSUMER(
        BASE
        | {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "error_cb": lambda e: noted.add(e.name())}
    )
    consumer.subscribe([TOPIC])
    until(consumer, lambda: "_ALL_BROKERS_DOWN" in noted)
    report("errors", sorted(noted))
    call("list topics", consumer.list_topics, timeout=0.1)
    call("committed", consumer.committed, [at(0)], timeout=0.1)
    call("close", consumer.close)


def throttled() -> None:
    """The broker holds fetches back for a quota: the throttle callback."""
    noted: list[Any] = []
    consumer = open_consumer("throttled", throttle_cb=noted.append)
    consumer.assign([at(0), at(1)])
    until(consumer, lambda: noted)
    for event in noted[:1]:
        report("event", (type(event).__name__, event.broker_id, event.throttle_time > 0))
        report("broker", event.broker_name.split("/")[-1])
    call("close", consumer.close)


def cooperating() -> None:
    """The same by the cooperative protocol."""
    rebalancing(partition_assignment_strategy="cooperative-sticky")


if __name__ == "__main__":
    globals()[SCENARIO]()
    sys.stdout.write("the end\n")
