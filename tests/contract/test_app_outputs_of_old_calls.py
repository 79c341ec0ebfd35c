"""A call that outlives its partition's assignment sends nothing; its key's next call here sends it, later."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.events import PartitionAssigned, PartitionLost
from ehkafka.testing import ApiKey
from tests.contract.conftest import FAST_GROUP


class Calls:
    """Calls that send their offset; the first one of all waits until the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.lines: list[tuple[str, int]] = []

    def _waits(self, record: Any) -> bool:
        self.lines.append(("start", record.offset()))
        return record.key() == b"a" and self.lines.count(("start", 0)) == 1 and record.offset() == 0

    def plain(self, record: Any) -> str:
        """Run on a thread."""
        if self._waits(record):
            assert self.gate.wait(60.0)
        self.lines.append(("end", record.offset()))
        return str(record.offset())

    def sends(self, record: Any) -> None:
        """Send by the record; what is refused then is raised."""
        record.send(self.plain(record))

    async def stubborn(self, record: Any) -> str:
        """Run in a task, and do not end when it is cancelled."""
        if self._waits(record):
            while not self.gate.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
        self.lines.append(("end", record.offset()))
        return str(record.offset())

    def batch(self, batch: Any) -> None:
        """Run a batch of one."""
        for record in batch:
            record.send(self.plain(record))


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "threads": ("plain", {}),
    "threads, send": ("sends", {}),
    "threads, waiting": ("plain", {"acknowledged": "before_next"}),
    "tasks": ("stubborn", {}),
    "batches": ("batch", {"batch_records_max": 1, "wait_s_max": 0.0}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_old_call_sends_goes_nowhere(
    lab: Any, events: Any, wait_for: Any, read_topic: Any, kind: str
) -> None:
    """Its partition is lost and comes back while it runs: each output of its key once, and in order."""
    lab.broker.create_topic("out", 1)
    calls = Calls()
    name, options = KINDS[kind]
    app = lab.app(None, consumer={**FAST_GROUP, "session.timeout.ms": 2_000})
    app.add_hook(events)
    register = app.batch_handler if name == "batch" else app.handler
    register("t", to="out", workers=4, **options)(getattr(calls, name))
    app.start()
    try:
        lab.produce("a a")
        wait_for(lambda: ("start", 0) in calls.lines)
        lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
        wait_for(lambda: events.of(PartitionLost), timeout_s=20.0)
        wait_for(lambda: len(events.of(PartitionAssigned)) > 1, timeout_s=20.0)
        assert calls.lines == [("start", 0)]
    finally:
        calls.gate.set()
    wait_for(lambda: lab.committed() == 2, timeout_s=30.0)
    app.stop()
    assert calls.lines == [(word, offset) for offset in (0, 0, 1) for word in ("start", "end")]
    assert [message.value() for message in read_topic("out", 2)] == [b"0", b"1"]


def test_a_key_waits_no_more_for_outputs_that_are_given_up_with_their_epoch(
    lab: Any, events: Any, wait_for: Any, read_topic: Any
) -> None:
    """Its record had ended but for them when its partition was lost: it is handled again, and goes on."""
    lab.broker.create_topic("out", 1)
    calls = Calls()
    calls.gate.set()
    app = lab.app(None, consumer={**FAST_GROUP, "session.timeout.ms": 2_000})
    app.add_hook(events)
    app.handler("t", to="out", workers=4, acknowledged="before_next")(calls.plain)
    lab.produce("a a")
    lab.broker.fail_next(ApiKey.PRODUCE, *[KafkaError.NOT_ENOUGH_REPLICAS] * 5_000)
    app.start()
    wait_for(lambda: ("end", 0) in calls.lines)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_for(lambda: events.of(PartitionLost), timeout_s=20.0)
    wait_for(lambda: calls.lines.count(("end", 0)) == 2)
    assert ("start", 1) not in calls.lines
    lab.broker.clear_failures(ApiKey.PRODUCE)
    wait_for(lambda: lab.committed() == 2)
    app.stop()
    assert calls.lines == [(word, offset) for offset in (0, 0, 1) for word in ("start", "end")]
    assert [message.value() for message in read_topic("out", 2)] == [b"0", b"1"]
