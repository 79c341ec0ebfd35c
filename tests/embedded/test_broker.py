"""The embedded broker is fast, has what a test asked for, refuses nonsense, and is gone afterwards."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError

from ehkafka.errors import ConfigurationError
from ehkafka.testing import ApiKey, EmbeddedBroker, EmbeddedBrokerError
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from confluent_kafka import Consumer, Message

    Opener = Callable[..., AbstractContextManager[Consumer]]
    Committer = Callable[..., float]


def read(opened: Consumer, count: int) -> list[Message]:
    """Poll until `count` records came, or fail."""
    records: list[Message] = []

    def take() -> None:
        record = opened.poll(0.05)
        if record is not None:
            assert record.error() is None, record.error()
            records.append(record)

    wait_until(lambda: len(records) >= count, lambda: f"{count} records", meanwhile=take)
    return records


def native_threads() -> int:
    """Count this process's threads, librdkafka's included."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_fresh_group_reads_what_was_produced_within_two_seconds(
    broker: EmbeddedBroker, consumer: Opener
) -> None:
    """Keys, values and headers come back, without the default pause before a first rebalance."""
    broker.produce("orders", [("a", b"1"), ("b", None)], headers={"h": b"x"}, partition=2)
    began_s = unstolen_s()
    with consumer(broker) as opened:
        opened.subscribe(["orders"])
        records = read(opened, 2)
    assert unstolen_s() - began_s < 2.0
    assert [(one.partition(), one.key(), one.value()) for one in records] == [
        (2, b"a", b"1"),
        (2, b"b", None),
    ]
    assert records[0].headers() == [("h", b"x")]


def test_producing_to_an_unknown_topic_creates_it_with_the_default_count(broker: EmbeddedBroker) -> None:
    """A topic's first `produce` makes 16 partitions, not librdkafka's 4."""
    assert broker.produce("fresh", [("a", b"1")]) == 1
    assert len(broker.committed("g", "fresh")) == 16


def test_a_second_member_gets_its_share_quickly(broker: EmbeddedBroker, consumer: Opener) -> None:
    """`consumer_properties` keep a rebalance of a running group near half a second."""
    with consumer(broker) as first, consumer(broker) as second:
        first.subscribe(["orders"])
        wait_until(lambda: first.poll(0.02) is None and len(first.assignment()) == 4)
        began_s = unstolen_s()
        second.subscribe(["orders"])

        def shared() -> bool:
            first.poll(0.01)
            second.poll(0.01)
            return len(first.assignment()) == len(second.assignment()) == 2

        wait_until(shared)
        assert unstolen_s() - began_s < 3.0


def test_closing_twice_starting_again_and_collecting_leave_no_thread() -> None:
    """Whichever way a broker ends, its threads end with it."""
    before = native_threads()
    broker = EmbeddedBroker({"orders": 1})
    assert broker.start() is broker.start()
    assert native_threads() > before
    broker.close()
    broker.close()
    wait_until(lambda: native_threads() <= before)
    broker.start()
    assert broker.committed("g", "orders") == {0: None}
    del broker
    gc.collect()
    wait_until(lambda: native_threads() <= before)


SILENT_EXIT = """
import os, sys
from ehkafka.testing import EmbeddedBroker
broker = EmbeddedBroker({"orders": 1}, brokers=2).start()
broker.take_down(); broker.bring_up()
child = os.fork()
if child == 0:
    broker.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
broker.bring_up()
"""


def test_a_broker_left_open_neither_hangs_the_exit_nor_a_forked_child() -> None:
    """Interpreter exit ends it, a child's close leaves the parent's alone, and nothing is printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SILENT_EXIT], capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda _: EmbeddedBroker({"orders": 0}), "needs 1 to 10000 partitions, not 0"),
        (lambda _: EmbeddedBroker({"no/name": 1}), "no topic name"),
        (lambda _: EmbeddedBroker(brokers=0), "1 to 20"),
        (lambda _: EmbeddedBroker(brokers=2**32 + 1), "1 to 20"),
        (lambda broker: broker.create_topic("more", -1), "needs 1 to 10000 partitions, not -1"),
        (lambda broker: broker.take_down(2), "There is no broker 2: give an ID from 1 to 1"),
        (lambda broker: broker.fail_next(ApiKey.FETCH, 1, broker_id=2), "There is no broker 2"),
        (lambda broker: broker.set_coordinator("g", 0), "There is no broker 0"),
        (lambda broker: broker.advertise("localhost", 9, 3), "There is no broker 3"),
        (lambda broker: broker.move_leader("orders", 4, 1), "no partition 4: give 0 to 3"),
        (lambda broker: broker.move_leader("orders", -1, 1), "no partition -1"),
        (lambda broker: broker.move_leader("orders", None, 1), "no partition None"),
        (lambda broker: broker.move_leader("orders", 0, "1"), "no broker '1'"),
        (lambda broker: broker.take_down(True), "no broker True"),
        (lambda broker: broker.delete_topic("order"), "'order' was not made by this broker"),
        (lambda broker: broker.delete_records("orders", 0, -1), "offsets begin at 0"),
        (lambda broker: broker.delete_records("orders", 0, 2**64), "offsets begin at 0"),
        (lambda broker: broker.set_topic_error("orders", None), "no error code"),
        (lambda broker: broker.set_coordinator(None, 1), "no group"),
        (lambda broker: broker.committed(None, "orders"), "no group"),
        (lambda broker: broker.advertise(None, 9), "host name and a port"),
        (lambda broker: broker.advertise("localhost", 2**32), "host name and a port"),
        (lambda broker: broker.disable(None), "no request type"),
        (lambda broker: broker.fail_next(999, 1), "no request type"),
        (lambda broker: broker.fail_next(ApiKey.FETCH, 2**16), "no error code"),
        (lambda broker: broker.produce("orders", [], partition=2**32), "no partition"),
        (lambda broker: broker.fail_next(ApiKey.FETCH), "at least one error code"),
        (lambda broker: broker.fail_next(ApiKey.METADATA, 5), r"set_topic_error.*KafkaError\._TRANSPORT"),
        (lambda broker: broker.delay_next(ApiKey.FETCH, 1, times=0), "times=0: give 1 to"),
        (lambda broker: broker.set_rtt(-1), "A delay is 0 to"),
        (lambda broker: broker.set_rtt(float("nan")), "A delay is 0 to"),
        (lambda broker: broker.delay_next(ApiKey.FETCH, 2**22), "A delay is 0 to"),
    ],
)
def test_wrong_arguments_are_refused(
    broker: EmbeddedBroker, wrong: Callable[[EmbeddedBroker], object], message: str
) -> None:
    """Each says what is wrong; none reaches librdkafka, which would trust it."""
    with pytest.raises(ConfigurationError, match=message):
        wrong(broker)


FEW_FILES = """
import resource
from ehkafka.testing import EmbeddedBroker, EmbeddedBrokerError
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
try:
    EmbeddedBroker(brokers=20).start()
except EmbeddedBrokerError as error:
    print(error)
"""


def test_a_broker_that_cannot_open_its_sockets_is_an_error() -> None:
    """Otherwise librdkafka ends the process."""
    command = [sys.executable, "-c", FEW_FILES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert "Too many open files" in done.stdout, done.stderr


def test_what_the_native_part_refuses_carries_kafkas_code(broker: EmbeddedBroker) -> None:
    """A topic made twice and an offset beyond the end are errors with a code."""
    with pytest.raises(EmbeddedBrokerError, match="TOPIC_ALREADY_EXISTS") as twice:
        broker.create_topic("orders")
    assert twice.value.code == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(EmbeddedBrokerError, match="OFFSET_OUT_OF_RANGE"):
        broker.delete_records("orders", 0, 99)


@pytest.mark.parametrize(
    "use",
    [
        lambda broker: broker.bootstrap,
        lambda broker: broker.create_topic("t"),
        lambda broker: broker.fail_next(ApiKey.FETCH, 1),
        lambda broker: broker.take_down(),
        lambda broker: broker.requests(),
        lambda broker: broker.produce("t", []),
        lambda broker: broker.delete_topic("orders"),
    ],
)
def test_a_closed_broker_says_so(use: Callable[[EmbeddedBroker], object]) -> None:
    """Every use before start and after close is a clear error."""
    broker = EmbeddedBroker({"orders": 1})
    for _ in range(2):
        with pytest.raises(EmbeddedBrokerError, match="not running"):
            use(broker)
        assert "closed" in repr(broker)
        broker.start().close()


def test_no_signal_reaches_the_brokers_threads() -> None:
    """One whose wait a signal interrupts ends the broker, and may abort the process: they block them all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    threads_before = set(Path("/proc/self/task").iterdir())
    with EmbeddedBroker({"one": 1}):
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
        threads = set(Path("/proc/self/task").iterdir()) - threads_before
        assert any("mock" in (thread / "comm").read_text() for thread in threads)
        for thread in threads:
            blocked = int((thread / "status").read_text().partition("SigBlk:")[2].split()[0], 16)
            stops = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGUSR1)
            assert all(blocked >> (number - 1) & 1 for number in stops)
