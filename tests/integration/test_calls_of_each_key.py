"""On a real broker: of each key, handlers of any speed are called with what was produced, in order.

The handlers keep a log of their own (`tests.kit.call_log`), so nothing here rests on what the engine
says of itself; the test compares it with what was produced. `EHKAFKA_CALLS_RECORDS` makes the runs longer.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer

from ehkafka.testing import check_history, read_history
from ehkafka.testing.checker.history_event import Finished, Started
from tests.kit.call_log import BEGUN, ENDED, FAILED, Call, read_calls
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
MEMBER = Path(__file__).with_name("calls_member.py")
RECORDS = int(os.environ.get("EHKAFKA_CALLS_RECORDS", "40000"))
KEYS = 1_000
PARTITIONS = 4
# Which share of the records costs what (see `calls_member.COSTS_S`), twice over: quick calls, slower ones,
# between, a millisecond, and back.
PHASES = [(b"f", 0.3), (b"q", 0.05), (b"s", 0.02), (b"m", 0.04), (b"f", 0.05), (b"w", 0.005), (b"f", 0.035)]
FAILING = 100
FAILS = b"!"
# A lost session would rightly repeat records, and the comparison would be of something else.
STEADY = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 500}
# For a successor that must not wait for long.
QUICK = {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 150}
LIMIT_S = 60.0 + RECORDS / 5_000

# One key's calls, in order: offset, attempt, how it ended.
Sequences = dict[tuple[int, bytes], list[tuple[int, int, int]]]


class Orders(NamedTuple):
    """A topic with records, and what their handlers must see."""

    broker: KafkaBroker
    topic: str
    expected: Sequences
    ends: dict[int, int]


def produced(broker: KafkaBroker, records: int) -> Orders:
    """Produce so many records that cost what `PHASES` says, one in a hundred of which fails once."""
    topic = f"calls-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, PARTITIONS, {})
    expected: Sequences = defaultdict(list)
    ends: dict[int, int] = {}

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        ends[partition] = offset + 1
        calls = [(offset, 1, FAILED), (offset, 2, ENDED)] if message.value()[1:] else [(offset, 1, ENDED)]
        expected[partition, message.key()] += calls

    rng = random.Random(6)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, KEYS + 1)))
    keys = [b"key-%d" % number for number in range(KEYS)]
    costs = [cost for _ in range(2) for cost, share in PHASES for _ in range(round(records * share))]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0})
    for key, cost in zip(rng.choices(keys, cum_weights=weights, k=len(costs)), costs, strict=True):
        value = cost + (FAILS if rng.random() < 1 / FAILING else b"")
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    assert not producer.flush(30.0)
    return Orders(broker, topic, expected, ends)


@pytest.fixture(scope="module")
def orders(kafka: KafkaBroker) -> Orders:
    """Return a topic that every run of this file reads from its beginning."""
    return produced(kafka, RECORDS)


class Member:
    """One start of the program, which writes its calls to `calls`."""

    def __init__(
        self, orders: Orders, group: str, path: Path, *arguments: str, consumer: dict[str, int] = STEADY
    ) -> None:
        self.calls = path.with_suffix(".calls")
        self._log = path.with_suffix(".log")
        command = [sys.executable, str(MEMBER), "--log", str(self.calls), "--notes", str(3 * RECORDS)]
        command += ["--bootstrap", orders.broker.bootstrap, "--group", group, "--topic", orders.topic]
        command += [part for pair in consumer.items() for part in ("--consumer", "{}={}".format(*pair))]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},  # for `tests.kit`
            )

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text()

    def stop(self) -> None:
        """Stop it gracefully."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30.0) == 0, self.log

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def start(orders: Orders, tmp_path: Path) -> Iterator[Callable[..., Member]]:
    """Return `start(group, *arguments)`; what it starts is ended with the test."""
    with ExitStack() as running:

        def start_one(group: str, *arguments: str, consumer: dict[str, int] = STEADY) -> Member:
            path = tmp_path / f"{group}-{uuid.uuid4().hex[:4]}"
            member = Member(orders, group, path, *arguments, consumer=consumer)
            running.callback(member.close)
            return member

        yield start_one


def wait_until_committed(orders: Orders, group: str, member: Member) -> None:
    """Wait until the group has committed all that was produced."""

    def check() -> None:
        assert member.process.poll() is None, member.log
        time.sleep(0.1)

    wait_until(
        lambda: orders.broker.committed(group, orders.topic) == orders.ends,
        lambda: f"all is committed\n{member.log}",
        LIMIT_S,
        meanwhile=check,
    )


def sequences(calls: Iterable[Call]) -> Sequences:
    """Return each key's calls in order; fails where two calls of a key overlap."""
    found: Sequences = defaultdict(list)
    running: dict[tuple[int, bytes], Call] = {}
    for call in calls:
        name = (call.partition, call.key)
        if call.kind == BEGUN:
            assert name not in running, f"{call} begins while {running[name]} runs"
            running[name] = call
        else:
            begun = running.pop(name)
            assert (begun.offset, begun.attempt) == (call.offset, call.attempt), f"{begun} ends as {call}"
            found[name].append((call.offset, call.attempt, call.kind))
    assert not running
    return found


@pytest.mark.parametrize(
    ("kind", "order_by"), [("threads", "key"), ("threads", "own"), ("asyncio", "key"), ("asyncio", "own")]
)
def test_each_key_sees_the_calls_that_were_produced(
    orders: Orders, start: Callable[..., Member], kind: str, order_by: str
) -> None:
    """Over costs that cross every bound, one in a hundred failing once: what was produced, in order."""
    group = f"{kind}-{order_by}"
    member = start(group, "--kind", kind, "--order-by", order_by)
    wait_until_committed(orders, group, member)
    member.stop()
    assert sequences(read_calls(member.calls)) == orders.expected


def test_the_history_brackets_each_call(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The engine's own history of a run brackets each call that the handler noted."""
    orders = produced(kafka, RECORDS // 4)
    history = tmp_path / "history.jsonl"
    member = Member(orders, "reported", tmp_path / "reported", "--history", str(history))
    try:
        wait_until_committed(orders, "reported", member)
        member.stop()
    finally:
        member.close()
    calls = list(read_calls(member.calls))
    assert sequences(calls) == orders.expected
    reported = list(read_history([history]))
    verdict = check_history(reported)
    assert verdict.ok, verdict.report()
    assert verdict.duplicates == 0
    begun = {call[2:5]: call.at_ns for call in calls if call.kind == BEGUN}
    ended = {call[2:5]: call.at_ns for call in calls if call.kind != BEGUN}
    seen = 0
    for event in reported:
        if isinstance(event, Started | Finished):
            name = (event.attempt, event.partition.partition, event.offset)
            seen += 1
            if isinstance(event, Started):
                assert event.at_ns <= begun[name]
            else:
                assert event.at_ns >= ended[name]
    assert seen == len(calls)


def test_what_is_committed_when_a_process_dies_was_handled(
    orders: Orders, start: Callable[..., Member]
) -> None:
    """After `kill -9` the group's commit passes no record whose handler had not returned."""
    group = "killed"
    handled: set[tuple[int, int]] = set()
    for kill_at in (RECORDS // 5, RECORDS // 2):
        member = start(group, consumer=QUICK)
        wait_until(
            lambda least=kill_at: sum(done or 0 for done in committed(orders, group).values()) >= least,
            lambda of=member: of.log,
            LIMIT_S,
        )
        member.process.kill()
        member.process.wait()
        handled |= {(call.partition, call.offset) for call in read_calls(member.calls) if call.kind == ENDED}
        for partition, next_offset in committed(orders, group).items():
            missing = [offset for offset in range(next_offset or 0) if (partition, offset) not in handled]
            assert not missing, f"{partition} is committed up to {next_offset} without {missing[:5]}"
    member = start(group, consumer=QUICK)
    wait_until_committed(orders, group, member)
    member.stop()
    handled |= {(call.partition, call.offset) for call in read_calls(member.calls) if call.kind == ENDED}
    assert len(handled) == sum(orders.ends.values())


def committed(orders: Orders, group: str) -> dict[int, int | None]:
    """Return the group's commits."""
    return orders.broker.committed(group, orders.topic)
