"""E7: every documented call does the same in both classes: results, errors, callbacks."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker, topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.testing.kafka import KafkaBroker

CALLS = Path(__file__).with_name("calls.py")
SCENARIOS = ("reading", "committing", "assigning", "rebalancing", "cooperating")
TRIES = {name: 3 if name in {"rebalancing", "cooperating"} else 1 for name in SCENARIOS}
RECORDS = 10
RUN_S = 60.0
QUICK = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 150, "fetch.wait.max.ms": 20}


@pytest.fixture
def on_embedded() -> Iterator[Callable[[str], list[str]]]:
    """Return a function that tells how both classes differ, each on an embedded broker of its own."""
    with EmbeddedBroker() as one, EmbeddedBroker() as other:

        def places(topic: str) -> list[tuple[str, str, dict[str, Any]]]:
            found = []
            for broker in (one, other):
                broker.create_topic(topic, 2)
                for partition in (0, 1):
                    broker.produce(topic, _records(partition), partition=partition)
                properties = broker.consumer_properties | {"fetch.wait.max.ms": 20}
                found.append((broker.bootstrap, topic, properties))
            return found

        yield lambda scenario: _differences(scenario, places(f"topic-{uuid.uuid4().hex}"))


@pytest.fixture
def on_kafka(kafka: KafkaBroker) -> Callable[[str], list[str]]:
    """Return a function that tells how both classes differ on Apache Kafka, each on a topic of its own."""

    def places() -> list[tuple[str, str, dict[str, Any]]]:
        found = []
        for _ in range(2):
            topic = f"topic-{uuid.uuid4().hex}"
            kafka.create_topic(topic, 2)
            for partition in (0, 1):
                topics.produce(kafka.bootstrap, topic, _records(partition), partition=partition)
            found.append((kafka.bootstrap, topic, QUICK))
        return found

    return lambda scenario: _differences(scenario, places())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_e7_calls_on_the_embedded_broker(on_embedded: Callable[[str], list[str]], scenario: str) -> None:
    """E7: both classes say the same on the embedded broker.

    Its groups need sessions so short that a member may be lost on a busy machine: then once more.
    """
    assert any(not (found := on_embedded(scenario)) for _ in range(TRIES[scenario])), found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_e7_calls_on_apache_kafka(on_kafka: Callable[[str], list[str]], scenario: str) -> None:
    """E7: both classes say the same on Apache Kafka."""
    assert not on_kafka(scenario)


def _records(partition: int) -> list[tuple[str, bytes]]:
    return [(f"key-{partition}", b"value %d" % number) for number in range(RECORDS)]


def _differences(scenario: str, places: list[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """Run both classes, each at its place; return the lines that differ, theirs and ours."""
    with ThreadPoolExecutor() as pool:
        theirs, ours = pool.map(
            lambda module, place: _run(module, scenario, *place), ("confluent_kafka", "ehkafka"), places
        )
    assert theirs[-1] == "the end"
    return [] if ours == theirs else [f"{a}  //  {b}" for a, b in zip(theirs, ours, strict=False) if a != b]


def _run(module: str, scenario: str, bootstrap: str, topic: str, properties: dict[str, Any]) -> list[str]:
    arguments = [sys.executable, str(CALLS), module, scenario, bootstrap, topic, json.dumps(properties)]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert run.returncode == 0, f"{module}: {run.stdout}\n{run.stderr}"
    return run.stdout.splitlines()
