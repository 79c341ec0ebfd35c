"""One output partition of 32 has no leader for a while, under load: what becomes of the other ones.

Runs on demand, for so many seconds without the leader; -s shows the figures:

    STRESS_SECONDS=60 STRESS_RATE=3000 scripts/test --no-lint -k test_leaderless_under_load -s
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

import ehkafka
from ehkafka.events import OutputProducerReplaced
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Event

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.answering_proxy import AnsweringProxy, Produced

SECONDS = float(os.environ.get("STRESS_SECONDS", "0"))
RATE = int(os.environ.get("STRESS_RATE", "3000"))
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not SECONDS, reason="runs where STRESS_SECONDS says for how long"),
    pytest.mark.timeout(600 + 4 * SECONDS),
]
PARTITIONS, DEAD, KEYS = 32, 7, 10_000
VALUE = b"x" * 200
SAMPLE_EACH_S = 0.2
WARM_S, BEFORE_S = 10.0, 20.0
BEHIND_S_MAX, RATE_MIN, NAMED_S_MAX = 2.0, 0.9, 15.0
# By then the first answer of the partition has come, and the client knows.
FIRST_S = 5.0
TIMEOUT_S = 120.0


def write_steadily(bootstrap: str, topic: str, rate: int, over: Event) -> None:
    """Write so many keyed records a second until it is over. Runs in a process of its own."""
    properties = {"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"}
    producer = Producer({**properties, "enable.idempotence": True, "log_level": 0})
    began_s, count = time.monotonic(), 0
    while not over.wait(0.01):
        for count in range(count, int((time.monotonic() - began_s) * rate)):  # noqa: B020 - it goes on there
            producer.produce(topic, VALUE, b"key-%d" % (count % KEYS))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


@dataclass
class Sample:
    """How far the logs and the group's commits are at a moment, by partition."""

    at_s: float
    inputs: list[int]
    outputs: list[int]
    commits: list[int]


@dataclass
class Samples:
    """Asks for the ends of input and output and for the commits, again and again."""

    bootstrap: str
    group: str
    topics: tuple[str, str]
    all: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open the clients."""
        properties = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        self._admin = AdminClient(properties)
        self._consumer = Consumer({**properties, "group.id": self.group})

    def close(self) -> None:
        """Close the client that can be."""
        self._consumer.close()

    def take(self) -> Sample:
        """Ask once: for the commits last, so that none seems to be behind what came later."""
        ends = [self._ends(topic) for topic in self.topics]
        at_s = time.monotonic()
        places = [TopicPartition(self.topics[0], number) for number in range(PARTITIONS)]
        commits = [max(0, place.offset) for place in self._consumer.committed(places, timeout=30)]
        self.all.append(Sample(at_s, ends[0], ends[1], commits))
        return self.all[-1]

    def take_for(self, seconds: float) -> list[Sample]:
        """Ask for so long; return these samples."""
        first, ends_s = len(self.all), time.monotonic() + seconds
        while time.monotonic() < ends_s:
            self.take()
            time.sleep(SAMPLE_EACH_S)
        return self.all[first:]

    def behind_s(self, samples: list[Sample], partition: int) -> list[float]:
        """Return how long before each sample all was there that its commit says, and nothing more."""
        found = []
        for sample in samples:
            since_s = sample.at_s
            for earlier in reversed(self.all):
                if earlier.at_s <= sample.at_s and earlier.inputs[partition] <= sample.commits[partition]:
                    since_s = earlier.at_s
                    break
            found.append(sample.at_s - since_s)
        return found

    def _ends(self, topic: str) -> list[int]:
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        found = self._admin.list_offsets(asked, request_timeout=30)
        ends = {place.partition: future.result().offset for place, future in found.items()}
        return [ends[number] for number in range(PARTITIONS)]


class Outputs:
    """What the output topic holds: how often each record's is there, and whether a key's are in order."""

    def __init__(self, bootstrap: str, topic: str, ends: list[int]) -> None:
        self.times: Counter[tuple[int, int]] = Counter()
        self.out_of_order = 0
        self._highest: dict[bytes, int] = {}
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "log_level": 0})
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])

        def take() -> None:
            for message in reader.consume(5_000, 0.1):
                self._take(message)

        try:
            wait_until(lambda: self.times.total() == sum(ends), "all outputs", TIMEOUT_S, meanwhile=take)
        finally:
            reader.close()

    def _take(self, message: Any) -> None:
        partition, offset = map(int, message.value().split()[:2])
        self.times[partition, offset] += 1
        if self.times[partition, offset] == 1:
            self.out_of_order += offset < self._highest.get(message.key(), -1)
            self._highest[message.key()] = max(offset, self._highest.get(message.key(), -1))


def rate_of(samples: list[Sample]) -> float:
    """Return how many outputs of the healthy partitions came in a second."""
    counts = [sum(sample.outputs) - sample.outputs[DEAD] for sample in (samples[0], samples[-1])]
    return (counts[1] - counts[0]) / (samples[-1].at_s - samples[0].at_s)


class Outage:
    """The load, the samples before and while the partition has no leader, and when what happened."""

    def __init__(self, app: ehkafka.App, samples: Samples, proxy: AnsweringProxy, events: Events) -> None:
        self.app, self.samples, self.proxy, self.events = app, samples, proxy, events
        self.out = samples.topics[1]
        self.before: list[Sample] = []
        self.during: list[Sample] = []
        self.after: list[Sample] = []
        self.began_s = self.back_s = self.named_s = math.inf
        self.replaced = 0

    def carry_out(self) -> None:
        """Let it happen while the load goes on, and wait until the partition is as near as the others."""
        samples = self.samples
        wait_until(lambda: sum(samples.take().commits), "a commit", TIMEOUT_S)
        samples.take_for(WARM_S)
        self.before = samples.take_for(BEFORE_S)
        self.began_s, replaced = time.monotonic(), len(self.events.of(OutputProducerReplaced))
        self.proxy.code_of = self._code_of
        while (after_s := time.monotonic() - self.began_s) < SECONDS:
            if f"{self.out}[{DEAD}]" in " ".join(self.app.health().reasons):
                self.named_s = min(self.named_s, after_s)
            self.during.extend(samples.take_for(1.0))
        self.proxy.code_of = lambda _request: 0
        ended_s = time.monotonic()
        wait_until(lambda: samples.behind_s([samples.take()], DEAD)[0] < BEHIND_S_MAX, "back", TIMEOUT_S)
        self.back_s = time.monotonic() - ended_s
        self.replaced = len(self.events.of(OutputProducerReplaced)) - replaced
        self.after = samples.take_for(BEFORE_S)

    def _code_of(self, request: Produced) -> int:
        is_dead = (request.topic, request.partition) == (self.out, DEAD)
        return KafkaError.NOT_LEADER_FOR_PARTITION if is_dead else 0

    def figures(self, outputs: Outputs) -> dict[str, Any]:
        """Return what is to be shown and asserted."""
        samples = self.samples
        phases = {"before": self.before, "during": self.during, "after": self.after}
        healthy = [number for number in range(PARTITIONS) if number != DEAD]
        behind = {
            name: sorted(value for number in healthy for value in samples.behind_s(some, number))
            for name, some in phases.items()
        }
        inputs = samples.all[-1].inputs
        early = next(sample for sample in samples.all if sample.at_s > self.began_s + FIRST_S).inputs
        repeated = {place: times for place, times in outputs.times.items() if times > 1}
        return {
            "records": sum(inputs),
            "rate": {name: round(rate_of(some)) for name, some in phases.items()},
            "behind_s_max": {name: round(values[-1], 2) for name, values in behind.items()},
            "behind_s_p99": {
                name: round(values[len(values) * 99 // 100], 2) for name, values in behind.items()
            },
            "dead_behind_s": round(max(samples.behind_s(self.during, DEAD)), 1),
            "named_s": round(self.named_s, 1),
            "back_s": round(self.back_s, 1),
            "lost": sum(inputs) - len(outputs.times),
            "out_of_order": outputs.out_of_order,
            "repeated": sum(repeated.values()) - len(repeated),
            "repeated_late": sum(offset >= early[partition] for partition, offset in repeated),
            "replaced": self.replaced,
            "refused_requests": self.proxy.refused_requests,
        }


def handle(record: ehkafka.Record) -> bytes:
    """Name the record."""
    return b"%d %d %b" % (record.partition(), record.offset(), VALUE)


def test_the_other_partitions_go_on_at_their_rate(
    stage_on: Callable[..., Any], answering_broker: tuple[KafkaBroker, AnsweringProxy]
) -> None:
    """Keys have the same partition in both topics, so the records of all others can be committed."""
    broker, proxy = answering_broker
    proxy.calm()
    stage, events = stage_on(broker, PARTITIONS), Events()
    out = f"{stage.topic}-out"
    broker.create_topic(out, PARTITIONS)
    app = stage.app(handle, endpoint=ehkafka.Endpoint.kafka(proxy.address), to=out, workers=16)
    app.add_hook(events)
    app.start()
    samples = Samples(broker.bootstrap, stage.group, (stage.topic, out))
    spawn = multiprocessing.get_context("spawn")
    over = spawn.Event()
    load = spawn.Process(target=write_steadily, args=(broker.bootstrap, stage.topic, RATE, over), daemon=True)
    outage = Outage(app, samples, proxy, events)
    load.start()
    try:
        outage.carry_out()
    finally:
        over.set()
        load.join()
    wait_until(lambda: (now := samples.take()).commits == now.inputs, "all is committed", TIMEOUT_S)
    wait_until(lambda: app.health().ok, "healthy")
    app.stop()
    figures = outage.figures(Outputs(broker.bootstrap, out, samples.take().outputs))
    samples.close()
    proxy.calm()
    print(figures)  # noqa: T201 - what the run is for
    assert figures["lost"] == figures["out_of_order"] == figures["repeated_late"] == 0, figures
    assert figures["dead_behind_s"] > SECONDS / 2, figures
    assert figures["named_s"] <= NAMED_S_MAX, figures
    assert figures["rate"]["during"] >= RATE_MIN * figures["rate"]["before"], figures
    behind = figures["behind_s_max"]
    assert behind["during"] <= max(BEHIND_S_MAX, behind["before"]), figures
