"""Every call, documented or not, does the same in both classes: results, errors, callbacks."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded import topics
from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker

CALLS = Path(__file__).with_name("calls.py")
MISUSE = Path(__file__).with_name("misuse.py")
SCENARIOS = ("reading", "committing", "assigning", "surprising", "rebalancing", "cooperating")
MISUSES = ("misusing", "misusing_while_reading")
ON_EMBEDDED = (*SCENARIOS, "failing", *MISUSES)
ON_KAFKA = (*SCENARIOS, "throttled")
# Scenarios at a time: they mostly wait.
WIDTH = 3
# The embedded broker loses a member of either class in some rebalances, mostly cooperative ones.
TRIES = {"rebalancing": 5, "cooperating": 5}
RECORDS = 10
RUN_S = 60.0
QUICK = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 150, "fetch.wait.max.ms": 20}

Place = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    """Return where scenarios run next to each other."""
    with ThreadPoolExecutor(WIDTH) as running:
        yield running


@pytest.fixture(scope="module")
def on_embedded(pool: ThreadPoolExecutor, request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """Return a function that tells how both classes differ; each run has an embedded broker of its own."""
    return _reported_of(pool, _on_embedded, _wanted(request, ON_EMBEDDED))


@pytest.fixture(scope="module")
def on_kafka(
    pool: ThreadPoolExecutor, kafka: KafkaBroker, request: pytest.FixtureRequest
) -> Callable[[str], list[str]]:
    """Return a function that tells how both classes differ on Apache Kafka, each on a topic of its own."""
    return _reported_of(pool, partial(_on_kafka, kafka), _wanted(request, ON_KAFKA))


@pytest.mark.parametrize("scenario", ON_EMBEDDED)
def test_calls_on_the_embedded_broker(on_embedded: Callable[[str], list[str]], scenario: str) -> None:
    """Both classes say the same on the embedded broker, and where no broker answers."""
    assert not on_embedded(scenario)


@pytest.mark.parametrize("scenario", ON_KAFKA)
def test_calls_on_apache_kafka(on_kafka: Callable[[str], list[str]], scenario: str) -> None:
    """Both classes say the same on Apache Kafka, also of fetches that a quota holds back."""
    assert not on_kafka(scenario)


def _reported_of(
    pool: ThreadPoolExecutor, compare: Callable[[str], list[str]], scenarios: list[str]
) -> Callable[[str], list[str]]:
    """Start all at once; a test that asks for one a second time, as a rerun does, has it run anew."""
    running = {scenario: pool.submit(compare, scenario) for scenario in scenarios}

    def differences(scenario: str) -> list[str]:
        return (running.pop(scenario, None) or pool.submit(compare, scenario)).result()

    return differences


def _wanted(request: pytest.FixtureRequest, scenarios: tuple[str, ...]) -> list[str]:
    """Return those that this run has selected."""
    names = {item.name for item in request.session.items if item.path == request.path}
    return [scenario for scenario in scenarios if any(f"[{scenario}]" in name for name in names)]


def _on_embedded(scenario: str) -> list[str]:
    """Try again what needs sessions so short that a member may be lost on a busy machine."""
    for _ in range(TRIES.get(scenario, 1)):
        with EmbeddedBroker() as one, EmbeddedBroker() as other:
            try:
                found = _differences(scenario, [_place_on(broker) for broker in (one, other)])
            except (AssertionError, subprocess.TimeoutExpired) as error:
                found = [str(error)]
        if not found:
            break
    return found


def _place_on(broker: EmbeddedBroker) -> Place:
    broker.create_topic("topic-of-two", 2)
    for partition in (0, 1):
        broker.produce("topic-of-two", _records(partition), partition=partition)
    return broker.bootstrap, "topic-of-two", broker.consumer_properties | {"fetch.wait.max.ms": 20}


def _on_kafka(kafka: KafkaBroker, scenario: str) -> list[str]:
    properties: dict[str, Any] = dict(QUICK)
    if scenario == "throttled":
        properties["client.id"] = f"throttled-{uuid.uuid4().hex}"
        kafka.set_quota(properties["client.id"], fetch_bytes_per_s=1)
    places: list[Place] = []
    for _ in range(2):
        topic = f"topic-{uuid.uuid4().hex}"
        kafka.create_topic(topic, 2)
        for partition in (0, 1):
            topics.produce(kafka.bootstrap, topic, _records(partition), partition=partition)
        places.append((kafka.bootstrap, topic, properties))
    return _differences(scenario, places)


def _records(partition: int) -> list[tuple[str, bytes]]:
    return [(f"key-{partition}", b"value %d" % number) for number in range(RECORDS)]


def _differences(scenario: str, places: list[Place]) -> list[str]:
    """Run both classes, each at its place; return the lines that differ, theirs and ours."""
    programs = zip(("confluent_kafka", "ehkafka"), places, strict=True)
    runs = [_start(module, scenario, *place) for module, place in programs]
    theirs, ours = map(_lines, runs)
    assert theirs[-1] == "the end"
    return [] if ours == theirs else [f"{a}  //  {b}" for a, b in zip(theirs, ours, strict=False) if a != b]


def _start(
    module: str, scenario: str, bootstrap: str, topic: str, properties: dict[str, Any]
) -> subprocess.Popen[str]:
    program = MISUSE if scenario in MISUSES else CALLS
    arguments = [sys.executable, str(program), module, scenario, bootstrap, topic, json.dumps(properties)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _lines(run: subprocess.Popen[str]) -> list[str]:
    with run:
        try:
            shown, complaints = run.communicate(timeout=RUN_S)
        finally:
            run.kill()
    assert run.returncode == 0, f"{run.args}: {shown}\n{complaints}"
    return shown.splitlines()
