"""A call that runs while its partition goes and comes back: its key waits for it, other keys do not.

In every kind of workers, however the partition went. A command ends the wait for it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from ehkafka.events import PartitionAssigned, PartitionLost, PartitionRevoked, RecordSkipped
from ehkafka.testing import ApiKey
from tests.contract.conftest import FAST_GROUP
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.kinds import Stage

PARTITIONS = 4
# Long enough for a rebalance on busy cores, and a session that ends while a test waits.
GROUP = {"session.timeout.ms": 2_000}


@contextmanager
def gone(lab: Any, events: Any, way: str, assignor: str) -> Iterator[None]:
    """Let partitions go: to another member that joins and leaves, by the group's word, or with the broker."""
    if way == "revoked":
        options = {"partition.assignment.strategy": "cooperative-sticky"} if "coop" in assignor else {}
        group = {"bootstrap.servers": lab.broker.bootstrap, "group.id": "g", **FAST_GROUP, **GROUP, **options}
        other = Consumer(group)
        other.subscribe(["t4"])
        try:
            wait_until(lambda: events.of(PartitionRevoked), meanwhile=lambda: other.poll(0.05))
        finally:
            other.close()
    else:
        lab.broker.take_down() if way == "away" else lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
        wait_until(lambda: events.of(PartitionLost))
        if way == "away":
            lab.broker.bring_up()
    yield


@pytest.mark.parametrize(
    ("stage", "way", "assignor"),
    [
        (kind, way, ("default", "cooperative-sticky")[(number + place) % 2])
        for number, kind in enumerate(("threads", "tasks", "batches", "processes", "class"))
        for place, way in enumerate(("revoked", "lost", "away"))
    ],
    indirect=["stage"],
)
def test_a_call_keeps_its_key_until_it_ends_wherever_its_partition_goes(
    stage: Stage, events: Any, way: str, assignor: str
) -> None:
    """Its key's next record starts only after it has ended, and alone counts; other keys go on at once."""
    everywhere = dict.fromkeys(range(PARTITIONS), 1)
    # A call that ends when it is cancelled does not outlive its epoch.
    handler = "handle_stubborn" if stage.name == "tasks" else "handle"
    for partition in range(PARTITIONS):
        stage.produce(("long", "wait gate"), ("long", ""), topic="t4", partition=partition)
    app = stage.start("t4", handler=handler, workers=6, assignor=assignor, drain_s=0.2, consumer=GROUP)

    def calls(word: str, key: str) -> Counter[int]:
        return Counter(line.partition for line in stage.lines(word, key))

    wait_until(lambda: calls("start", "long") == everywhere)
    with gone(stage.lab, events, way, assignor):
        wait_until(lambda: len(events.of(PartitionAssigned)) > PARTITIONS)
    wait_until(lambda: len(app.snapshot().partitions) == PARTITIONS)
    for partition in range(PARTITIONS):
        stage.produce(("other", ""), topic="t4", partition=partition)
    wait_until(lambda: calls("end", "other").keys() == everywhere.keys())
    must_stay(lambda: calls("start", "long") == everywhere)
    stage.open()
    wait_until(
        lambda: [stage.lab.committed(one, topic="t4") for one in range(PARTITIONS)] == [3] * PARTITIONS
    )
    # Of each partition that went, the first call has no result, and its record was handled again.
    again = sum(calls("start", "long").values()) - 2 * PARTITIONS
    assert again == app.snapshot().stale_records > 0
    assert app.snapshot().finished_records == 3 * PARTITIONS


@pytest.fixture
def old_call(lab: Any, recorder: Any, events: Any) -> Any:
    """Run an app whose first call of key `a` hangs while its partition is lost and comes back."""
    # Of key a only the first call: it comes before that of b has returned.
    gate = recorder.block(lambda record: record.offset() == 0 and recorder.offsets().count(0) == 1)
    lab.produce("a a b")
    app = lab.start(recorder, workers=4, stuck_s=2.0)
    wait_until(lambda: recorder.count >= 1)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_until(lambda: events.of(PartitionLost) and len(events.of(PartitionAssigned)) == 2)
    wait_until(lambda: app.keys.blocking() and app.keys.blocking()[0].status == "waiting: earlier call")
    yield app
    gate.set()


def test_a_skip_lets_its_key_continue(old_call: Any, lab: Any, events: Any) -> None:
    """The record of that call is skipped, the key's others are handled; health is green though it runs."""
    lab.keys_judged = False  # two calls of one key at a time are what the command permits
    assert old_call.keys.skip("t/0@0").records == 1
    wait_until(lambda: lab.committed() == 3)
    assert [event.offset for event in events.of(RecordSkipped)] == [0]
    assert old_call.snapshot().outliving == ()
    wait_until(lambda: old_call.health().ok)
