"""Replicas are away while outputs flow, in both modes; topics alone are judged.

Leaders and coordinators move in the runs of `scripts/proof`.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import OutputRefused
from ehkafka.run import exactly_once
from tests.contract.outputs_order import problems
from tests.integration.sent import inputs_of
from tests.kit.brokers import running
from tests.kit.cluster.cluster import KafkaCluster
from tests.kit.events import Events
from tests.kit.stage import stage_on
from tests.kit.topic_read import read_all, read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["stage_on"]

pytestmark = pytest.mark.broker

INPUTS, OUTPUTS = 3, 6
KEYS = [b"key-%d" % number for number in range(30)]
RATE = 150.0
CALL_S = 2e-3
# Shorter than some faults: the broker ends transactions that these hold up.
TRANSACTION_MS = 3000
# A frozen node loses what it leads after 2 s.
FAULT_S = 3.5
WAITS_S = 1.5
# Of each producer of transactions here, as if it were drawn: a group fences a static member whose join met a
# coordinator that died.
ID = "drawn"
DONE_S = 90.0


class Copies:
    """One app that copies a topic of the cluster, and a load that fills it."""

    def __init__(self, stage: Any, *, is_exact: bool) -> None:
        self.stage, self.is_exact, self.events = stage, is_exact, Events()
        self.out, self.dead = f"{stage.topic}-out", f"{stage.topic}-dead"
        stage.broker.create_topic(self.out, OUTPUTS, {"min.insync.replicas": "3"})
        stage.broker.create_topic(self.dead, 1)
        self.load = stage.load(RATE, keys=KEYS, survives=True)
        endpoint = ehkafka.Endpoint.kafka(stage.broker.bootstrap_for("app"))
        transactions = {"producer": {"transaction.timeout.ms": TRANSACTION_MS}, "exactly_once": is_exact}
        handling = {"to": self.out, "workers": 4, "on_failure": ehkafka.DeadLetter(self.dead)}
        patient = {"session.timeout.ms": 6000}
        self.app = stage.app(copy, endpoint=endpoint, consumer=patient, **handling, **transactions)
        self.app.add_hook(self.events)

    @property
    def acknowledged(self) -> int:
        """How many records are committed, each with its output."""
        return sum(offset or 0 for offset in self.stage.committed().values())

    def flows(self) -> bool:
        """Tell whether records are committed."""
        return self.acknowledged > 50

    def wrong(self) -> list[str]:
        """Return what a reader of committed transactions finds wrong."""
        bootstrap, inputs = self.stage.broker.bootstrap, inputs_of(self.stage)
        found = problems(inputs, read_all(bootstrap, self.out), repeats=not self.is_exact)
        if letters := read_messages(bootstrap, self.dead):
            found.append(f"{len(letters)} letters")
        return found + [event.sentence() for event in self.events.of(OutputRefused)]


def copy(record: Any) -> bytes:
    """Send where the record is from."""
    time.sleep(CALL_S)
    return b"%d:%d" % (record.partition(), record.offset())


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Run one for the module."""
    with running(KafkaCluster(clients=("app",))) as started:
        yield started


def test_too_few_replicas_in_sync_hold_outputs_back_and_refuse_none(
    cluster: KafkaCluster, stage_on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than a transaction may be open; then with a majority away as well. Both modes meet it."""
    monkeypatch.setattr(exactly_once, "secrets", SimpleNamespace(token_hex=lambda _bytes: ID))
    apps = [Copies(stage_on(cluster, INPUTS), is_exact=is_exact) for is_exact in (False, True)]
    first, second, _ = cluster.nodes
    try:
        for one in apps:
            one.load.start()
            one.app.start()
            wait_until(one.flows)
        first.suspend()
        wait_until(lambda: stands(apps))
        time.sleep(FAULT_S)
        second.suspend()
        time.sleep(FAULT_S)
    finally:
        for node in cluster.nodes:
            if node.is_suspended:
                node.resume()
    cluster.wait_until_in_sync()
    for one in apps:
        one.load.stop()
        one.stage.wait_until_committed(one.load.ends, DONE_S)
        one.app.stop()
    wrong = {one.out: one.wrong()[:20] for one in apps}
    assert not any(wrong.values()), f"FACT: {wrong}"


def stands(apps: list[Copies]) -> bool:
    """Tell whether nothing is committed for some time, although a hundred are written in a second."""
    before = [one.acknowledged for one in apps]
    time.sleep(WAITS_S)
    return [one.acknowledged for one in apps] == before
