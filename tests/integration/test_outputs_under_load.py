"""Outputs of members that are killed and come and go, on a broker that refuses some and forgets an id.

STRESS_KILLS=20 is the full size; without it there are a few kills.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ehkafka import DeadLetter
from ehkafka.testing import ApiKey, EmbeddedBroker
from tests.contract.outputs_order import problems
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KILLS = int(os.environ.get("STRESS_KILLS", "3"))
# Not in every run: twenty kills take two to three minutes each at least.
ON_DEMAND = pytest.mark.skipif(
    "STRESS_KILLS" not in os.environ, reason="runs where STRESS_KILLS says how many kills"
)
RATE = 400.0
MEMBERS = 2
# Until a member has started, or stopped: one with four processes is five interpreters that import, which
# takes a minute where many share a machine.
PATIENCE_S = 120.0
# Between a kill and the next one, beside what the members need to have partitions.
LIFE_S = (0.2, 1.0)
# The guest comes and goes: so long it stays, and so long it is away.
GUEST_S = 5.0
LARGE_EVERY = 1000
WORKERS = {"threads": 16, "tasks": 16, "batches": 4, "processes": 4}
SETTINGS = ("commit_interval_s=0.25", "drain_s=1", "backlog_records_max=2000")
KAFKA_SESSION_MS = 1500
# The embedded broker forms the group again a session less one second after the first member has joined, and
# waits for nobody who still drains: then a partition has two owners, and nothing keeps two in order.
EMBEDDED_SESSION_MS = 4000
PACE = [part for setting in SETTINGS for part in ("--setting", setting)]


class Guest:
    """A member that joins and leaves in good order, again and again, on a thread of its own."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._over = threading.Event()
        self.codes: list[int] = []
        self.problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="guest", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            self._come_and_go()
        except BaseException as problem:  # raised again by whoever waits for the guest
            self.problem = problem

    def _come_and_go(self) -> None:
        while not self._over.is_set():
            self._member.start()
            # Before that a signal would only end the interpreter.
            wait_until(self._member.assigned, lambda: f"partitions\n{self._member.log_tail()}", PATIENCE_S)
            self._over.wait(GUEST_S)
            self._member.terminate()
            self.codes.append(self._member.wait(PATIENCE_S))
            self._over.wait(GUEST_S / 2)


def kill_under_load(stage: Any, members: list[Any], eventually: Callable[..., None]) -> None:
    """Kill a member and start it again, `KILLS` times."""
    dice = random.Random(20)
    for _ in range(KILLS):
        victim = dice.choice(members)
        eventually(victim.assigned, lambda: f"a member has partitions\n{stage.logs()}", PATIENCE_S)
        time.sleep(dice.uniform(*LIFE_S))
        victim.kill()
        victim.start()


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    """Yield every message of a topic, each partition in its order."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "log_level": 0})
    try:
        for number in range(partitions):
            low, high = reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10.0)
            assert low == 0
            reader.assign([TopicPartition(topic, number, 0)])
            next_offset = 0
            while next_offset < high:
                messages = reader.consume(min(1000, high - next_offset), 60.0)
                assert messages, f"{topic}[{number}] ends at {next_offset}, not at {high}"
                for message in messages:
                    assert message.error() is None
                    next_offset = message.offset() + 1
                    yield message
    finally:
        reader.close()


def inputs_of(stage: Any, large_every: int) -> tuple[dict[bytes, list[bytes]], set[tuple[int, int]]]:
    """Return what each key's outputs are to be, in order, and the records whose outputs are refused."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    refused = set()
    for message in read_all(stage.broker.bootstrap, stage.topic, 8):
        partition, offset = message.partition(), message.offset()
        if large_every and offset % large_every == large_every // 2:
            refused.add((partition, offset))
        else:
            found[message.key()].append(b"%d:%d" % (partition, offset))
    return found, refused


def run_and_judge(
    stage: Any,
    eventually: Callable[..., None],
    ends: Callable[[], dict[int, int]],
    *,
    large_every: int = 0,
    session_ms: int = KAFKA_SESSION_MS,
    kind: str,
) -> None:
    """Run members, kill them under load, let all be committed, and judge every output."""
    to = ["--to", f"{stage.topic}-out", "--dead", f"{stage.topic}-dead", "--large-every", str(large_every)]
    to += ["--kind", kind, "--workers", str(WORKERS[kind])]
    names = [*(f"member-{number}" for number in range(MEMBERS)), "guest"]
    *members, guest = (
        stage.member(name, *PACE, *to, "--handler-ms", "1-8", consumer={"session.timeout.ms": session_ms})
        for name in names
    )
    for member in members:
        member.start()
    with Guest(guest) as guests:
        kill_under_load(stage, members, eventually)
    until = ends()
    stage.wait_until_committed(until, PATIENCE_S + 10.0 * KILLS)
    for member in members:
        member.terminate()
    assert [member.wait(PATIENCE_S) for member in members] == [0] * MEMBERS, stage.logs()
    assert set(guests.codes) == {0}, stage.logs()
    inputs, refused = inputs_of(stage, large_every)
    outputs = [(m.key(), m.value()) for m in read_all(stage.broker.bootstrap, f"{stage.topic}-out", 4)]
    assert problems(inputs, outputs) == []
    letters = set()
    for message in read_all(stage.broker.bootstrap, f"{stage.topic}-dead", 1):
        headers = dict(message.headers())
        letters.add((int(headers["ehkafka-origin-partition"]), int(headers["ehkafka-origin-offset"])))
    assert letters == refused
    repeated = len(outputs) - sum(map(len, inputs.values()))
    logging.getLogger(__name__).info(
        "%d inputs, %d outputs repeated, %d refused, %d kills, %d stops",
        sum(map(len, inputs.values())),
        repeated,
        len(refused),
        KILLS,
        len(guests.codes),
    )


@pytest.mark.broker
def test_one_output_that_is_too_large_takes_no_other_with_it(
    stage: Any, eventually: Callable[..., None]
) -> None:
    """The broker refuses the whole batch; those that were with it arrive, and none of them is a letter."""
    out, dead = f"{stage.topic}-out", f"{stage.topic}-dead"
    stage.broker.create_topic(out, 1, {"max.message.bytes": "200000"})
    stage.broker.create_topic(dead, 1)
    load = stage.load()
    load.produce(400)
    # In batches with others, and so are those that are sent again.
    large = (0, load.ends[0] // 2)

    def handle(record: Any) -> bytes:
        place = record.partition(), record.offset()
        return b"%d:%d" % place + (os.urandom(300_000) if place == large else b"")

    app = stage.app(handle, to=out, on_failure=DeadLetter(dead))
    app.start()
    stage.wait_until_committed(load.ends)
    app.stop()
    inputs, _ = inputs_of(stage, 0)
    key = next(key for key, values in inputs.items() if b"%d:%d" % large in values)
    inputs[key].remove(b"%d:%d" % large)
    outputs = [(message.key(), message.value()) for message in read_all(stage.broker.bootstrap, out, 1)]
    assert problems(inputs, outputs) == []
    (letter,) = read_all(stage.broker.bootstrap, dead, 1)
    assert dict(letter.headers())["ehkafka-origin-offset"] == b"%d" % large[1]


@ON_DEMAND
@pytest.mark.broker
@pytest.mark.timeout(600 + 60 * KILLS)
@pytest.mark.parametrize("kind", WORKERS)
def test_kills_and_refused_outputs_on_kafka(stage: Any, eventually: Callable[..., None], kind: str) -> None:
    """One output in a thousand is too large for its topic: its record is a letter, and no other suffers."""
    stage.broker.create_topic(f"{stage.topic}-out", 4, {"max.message.bytes": "200000"})
    stage.broker.create_topic(f"{stage.topic}-dead", 1)
    load = stage.load(RATE)
    load.start()

    def ends() -> dict[int, int]:
        load.stop()
        return dict(load.ends)

    run_and_judge(stage, eventually, ends, large_every=LARGE_EVERY, kind=kind)


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    """Return a broker that can be made to answer with errors; it outlives the stage."""
    with EmbeddedBroker() as broker:
        yield broker


@ON_DEMAND
@pytest.mark.slow
@pytest.mark.timeout(600 + 60 * KILLS)
@pytest.mark.parametrize("kind", WORKERS)
def test_kills_closed_connections_and_requests_to_repeat(
    embedded: EmbeddedBroker,
    stage_on: Callable[..., Any],
    eventually: Callable[..., None],
    kind: str,
) -> None:
    """Some requests are to be sent again, others get no answer.

    A refused one would prove nothing here: this broker looks at no sequence number, so it takes what its
    client has ready behind a refused request, which Kafka refuses, too.
    """
    stage = stage_on(embedded)
    embedded.create_topic(f"{stage.topic}-out", 4)
    embedded.create_topic(f"{stage.topic}-dead", 1)
    load = stage.load()
    load.produce(1_500 * KILLS)
    to_repeat, closed = KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._TRANSPORT
    embedded.fail_next(ApiKey.PRODUCE, *([0] * 49 + [to_repeat] + [0] * 49 + [closed]) * 10 * KILLS)

    run_and_judge(stage, eventually, lambda: dict(load.ends), session_ms=EMBEDDED_SESSION_MS, kind=kind)
