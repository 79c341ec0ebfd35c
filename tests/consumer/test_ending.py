"""Consumers that are not closed: dropped, or left to the end of their process. Closes without a broker."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import ehkafka
from tests.kit.faults.kafka_proxy import CommitPolicy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing import EmbeddedBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

    Open = Callable[..., ehkafka.Consumer]

PROGRAM = Path(__file__).with_name("ending.py")
LIMIT_S = 20.0


def held() -> tuple[int, int]:
    """Return how many threads and files this process has."""
    return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def open_one(broker: EmbeddedBroker) -> Open:
    """Return a function that opens a drop-in which only its test refers to."""

    def open_it(choices: dict[str, Any] | None = None, **properties: Any) -> ehkafka.Consumer:
        fixed = {
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            "enable.auto.commit": False,
        }
        return ehkafka.Consumer(broker.consumer_properties | fixed | properties, **(choices or {}))

    return open_it


@pytest.mark.parametrize(
    "how",
    [
        "end",
        "exit",
        "raise",
        "thread",
        "cycle",
        "daemon",
        "aio",
        "polled-elsewhere",
        "exit-in-thread",
        "fork",
        "fork-aio",
    ],
)
def test_a_program_that_ends_without_a_close_loses_no_commit(broker: EmbeddedBroker, how: str) -> None:
    """What was asked for when it ended is stored, as with confluent-kafka."""
    command = [sys.executable, str(PROGRAM), how, broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == (1 if how == "raise" else 0), done.stderr
    assert broker.committed("g", "t") == {0: 100}


@pytest.mark.parametrize("how", ["del", "cycle"])
@pytest.mark.parametrize("contiguous", [True, False])
def test_a_dropped_consumer_ends_at_once(
    open_one: Open, read: Any, committed: Any, how: str, *, contiguous: bool
) -> None:
    """With the last reference threads and sockets end, and the commits that were asked for are stored."""
    before = held()
    consumer: Any = open_one({"contiguous": contiguous})
    consumer.subscribe(["t"])
    for message in read(consumer, 100):
        consumer.commit(message)
    gc.disable()
    try:
        if how == "cycle":
            consumer.itself = consumer
        del consumer, message
        if how == "cycle":
            gc.collect()
    finally:
        gc.enable()
    assert committed("t") == {0: 100}
    wait_until(lambda: held()[0] <= before[0] and held()[1] <= before[1])


def test_a_dropped_consumer_commits_nothing_that_was_not_asked_for(
    open_one: Open, read: Any, committed: Any
) -> None:
    """Neither what was only returned, nor what `enable.auto.commit` would have committed later."""
    consumer = open_one(**{"enable.auto.commit": True, "auto.commit.interval.ms": 60_000})
    consumer.subscribe(["t"])
    read(consumer, 100)
    consumer.poll(0)
    del consumer
    assert committed("t") == {}


def test_a_consumer_is_dropped_while_its_commit_waits_elsewhere(
    open_one: Open, read: Any, slow: KafkaProxy, broker: EmbeddedBroker
) -> None:
    """The thread that sends its commits does not keep it, and does not lose what is being sent."""
    slow.policy = CommitPolicy(delay_s=0.5)
    consumer = open_one()
    consumer.subscribe(["t"])
    messages = read(consumer, 100)
    consumer.commit(messages[0])
    consumer.commit(messages[1])
    access = consumer._internals.access
    wait_until(lambda: access.is_sending)  # the thread, for a program that is busy
    consumer.commit(messages[-1])
    del consumer
    wait_until(lambda: broker.committed("g", "t") == {0: 100})
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("ehkafka-c")])


@pytest.mark.parametrize("how", ["close", "del"])
def test_the_end_waits_so_long_for_a_broker(
    open_one: Open, read: Any, slow: KafkaProxy, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """`close_s` bounds it, a log line says so, and every later call says closed."""
    slow.policy = CommitPolicy(delay_s=1.0)
    consumer = open_one({"close_s": 0.2})
    consumer.subscribe(["t"])
    consumer.commit(read(consumer, 100)[-1])
    began_s = time.monotonic()
    if how == "close":
        consumer.close()
        consumer.close()
        for call in (consumer.poll, consumer.commit):
            with pytest.raises(RuntimeError, match="Consumer closed"):
                call()
    del consumer
    assert time.monotonic() - began_s < 0.8
    assert "did not close within 0.2 s (close_s)" in caplog.text
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "ehkafka-close"])


def test_callbacks_run_on_the_thread_that_closes(open_one: Open, read: Any, committed: Any) -> None:
    """Also while another one waits for the client, and they may use the consumer."""
    noted: list[Any] = []

    def revoked(consumer: ehkafka.Consumer, partitions: list[TopicPartition]) -> None:
        noted.append(("on_revoke", threading.get_ident(), consumer.position(partitions)[0].offset))
        consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)

    consumer = open_one(on_commit=lambda *_: noted.append(("on_commit", threading.get_ident())))
    consumer.subscribe(["t"], on_revoke=revoked)
    consumer.commit(read(consumer, 100)[4])
    consumer.close()
    me = threading.get_ident()
    assert sorted(noted) == [("on_commit", me), ("on_revoke", me, 100)]
    assert committed("t") == {0: 7}


def test_a_lost_assignment_is_called_as_confluent_kafka_calls_it(
    open_one: Open, read: Any, committed: Any, broker: EmbeddedBroker
) -> None:
    """A bare commit fails with `_ASSIGNMENT_LOST`; no commit that is asked for then goes out later."""
    noted: list[Any] = []

    def lost(consumer: ehkafka.Consumer, _partitions: list[TopicPartition]) -> None:
        with pytest.raises(KafkaException) as raised:
            consumer.commit(asynchronous=False)
        noted.append(raised.value.args[0].code())
        consumer.commit(last)
        consumer.commit(last)

    consumer = open_one(**{"session.timeout.ms": 1_000, "max.poll.interval.ms": 1_000})
    consumer.subscribe(["t"], on_lost=lost)
    last = read(consumer, 100)[-1]
    time.sleep(2.0)  # the client's own watch over its polls
    wait_until(lambda: noted, meanwhile=lambda: consumer.poll(0.05))
    wait_until(consumer.assignment, meanwhile=lambda: consumer.poll(0.05))
    consumer.close()
    assert noted == [KafkaError._ASSIGNMENT_LOST]
    assert committed("t") == {}
