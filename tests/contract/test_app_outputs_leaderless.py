"""One partition of an output topic without a leader: its outputs wait, and everything else goes on."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import OutputRefused
from tests.contract.outputs_order import problems
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
DEAD = 3
HEALTHY = range(DEAD)
# A few seconds for the others' commits, and much more for a machine that stands still.
COMMIT_S = 10.0
HEALTH_S = 15.0
LIMIT_S = 60.0
ROUNDS = 8
RECORDS = 20
NAMED = re.compile(rf"\bout\[{DEAD}\]")


def key_of(partition: int, number: int) -> str:
    """Return one of the five keys of an input partition."""
    return f"p{partition}-{number % 5}"


class Leaderless:
    """Each input partition's outputs go to the output partition of its number."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        # One input partition's keys may go to different output partitions.
        self.target_of: Callable[[Any], int] = lambda record: record.partition()
        self.ends: Counter[int] = Counter()
        self.inputs: dict[bytes, list[bytes]] = {}
        # Places whose outputs were made more than a second after the fault began.
        self.later: set[bytes] = set()
        lab.broker.create_topic("out", PARTITIONS)
        # The first time cuts all connections: before any app is there.
        self.fail()
        self.heal()

    def fail(self) -> None:
        """Take the leader away."""
        self.lab.broker.move_leader("out", DEAD, None)

    def heal(self) -> None:
        """Give it back."""
        self.lab.broker.move_leader("out", DEAD, 1)

    def app(self, **options: Any) -> Any:
        """Return an app that sends a place for each record."""
        app = self.lab.app(None, **options)

        @app.handler("t4", to="out", workers=8)
        def handle(record: Any) -> Any:
            place = b"%d:%d" % (record.partition(), record.offset())
            return ehkafka.Send(place, partition=self.target_of(record))

        return app

    def produce(self, *partitions: int, is_later: bool = False) -> None:
        """Produce some records to each of these input partitions."""
        for partition in partitions:
            self.lab.produce(
                " ".join(key_of(partition, number) for number in range(RECORDS)),
                topic="t4",
                partition=partition,
            )
            for number in range(RECORDS):
                place = b"%d:%d" % (partition, self.ends[partition])
                self.inputs.setdefault(key_of(partition, number).encode(), []).append(place)
                self.later |= {place} if is_later else set()
                self.ends[partition] += 1

    def wait_until_committed(self, *partitions: int, timeout_s: float = LIMIT_S) -> None:
        """Wait until the group has committed all that was produced to these."""

        def behind() -> dict[int, Any]:
            found = self.lab.broker.committed("g", "t4")
            return {one: found[one] for one in partitions if found[one] != self.ends[one]}

        wait_until(lambda: not behind(), lambda: f"{dict(self.ends)} committed", timeout_s)

    def sent(self) -> list[tuple[bytes, bytes]]:
        """Return what is in the output topic."""
        return read_all(self.lab.broker.bootstrap, "out")


@pytest.fixture
def leaderless(lab: Any) -> Leaderless:
    """Return one; its partition has its leader."""
    return Leaderless(lab)


def test_the_others_are_committed_while_a_partition_has_no_leader(
    leaderless: Leaderless, events: Any
) -> None:
    """Health names it, and with its leader it goes on by itself; what is sent meanwhile is sent once."""
    app = leaderless.app()
    app.start()
    leaderless.produce(*range(PARTITIONS))
    leaderless.wait_until_committed(*range(PARTITIONS))
    leaderless.fail()
    began_s = time.monotonic()
    leaderless.produce(*range(PARTITIONS))
    leaderless.wait_until_committed(*HEALTHY, timeout_s=COMMIT_S)
    time.sleep(max(0.0, began_s + 1.5 - time.monotonic()))
    for _ in range(ROUNDS):
        leaderless.produce(*range(PARTITIONS), is_later=True)
        leaderless.wait_until_committed(*HEALTHY, timeout_s=COMMIT_S)
        assert leaderless.lab.broker.committed("g", "t4")[DEAD] == RECORDS
    left_s = max(0.0, began_s + HEALTH_S - time.monotonic())
    wait_until(lambda: NAMED.search(" ".join(app.health().reasons)), timeout_s=left_s + 5.0)
    assert app.snapshot().unacknowledged_outputs == RECORDS * (ROUNDS + 1)
    leaderless.heal()
    leaderless.wait_until_committed(*range(PARTITIONS))
    wait_until(lambda: app.health().ok)
    app.stop()
    sent = leaderless.sent()
    found = problems(leaderless.inputs, sent)
    assert found == [], f"FACT: outputs are lost or out of order: {found[:20]}"
    times = Counter(place for _, place in sent)
    repeated = {place: times[place] for place in leaderless.later if times[place] > 1}
    assert repeated == {}, f"FACT: {repeated}"
    assert max(times.values()) <= 2
    assert events.of(OutputRefused) == []
