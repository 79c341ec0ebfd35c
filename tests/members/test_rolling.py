"""A rolling restart of static members on a real broker: the members that stay see nothing of it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.checker.history_event import Assigned, Revoked
from tests.kit.processes import Supervised
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition

pytestmark = pytest.mark.broker

MEMBERS = 3


@pytest.mark.timeout(300)
def test_static_members_are_replaced_without_a_rebalance(stage: Any) -> None:
    """Each new process has the partitions of the old one, and no other's moved; nothing is repeated."""
    crew = Supervised(
        stage,
        MEMBERS,
        *("--handler-ms", "0-2", "--instance-id", "shop", "--setting", "stop_s=10"),
        **{"session.timeout.ms": 20_000, "heartbeat.interval.ms": 500},
    )
    load = stage.load(500.0)
    crew.start()
    before = crew.wait_until_ready()
    # The first to join has all partitions until the others come.
    wait_until(lambda: sum(len(held(crew, pid)) for pid in before.values()) == 8, crew.log_tail)
    wait_until(lambda: min(len(held(crew, pid)) for pid in before.values()) >= 2, crew.log_tail)
    load.start()
    epochs = {pid: len(moves(crew, pid)) for pid in before.values()}
    partitions = {number: held(crew, pid) for number, pid in before.items()}
    crew.signal(signal.SIGHUP)
    wait_until(lambda: "Replaced 3 members" in crew.text(), crew.log_tail, 120.0)
    after = crew.pids()
    load.stop()
    stage.wait_until_committed(load.ends)
    assert not {*before.values()} & {*after.values()}
    for number, pid in before.items():
        late = moves(crew, pid)[epochs[pid] :]
        assert {type(one) for one in late} == {Revoked}, late
        assert {one.reason for one in late if isinstance(one, Revoked)} == {"stopped"}
        assert held(crew, after[number]) == partitions[number]
        assert [type(one) for one in moves(crew, after[number])] == [Assigned] * len(partitions[number])
    crew.signal(signal.SIGTERM)
    assert crew.wait(30.0) == 0, crew.log_tail()
    verdict = stage.verdict()
    assert verdict.ok, f"FACT: {verdict.report()}"
    assert verdict.duplicates == 0, f"FACT: {verdict.report()}"


def moves(crew: Supervised, pid: int) -> list[Assigned | Revoked]:
    """Return the epochs that a process has begun and ended."""
    return [event for event in crew.events_of(pid) if isinstance(event, Assigned | Revoked)]


def held(crew: Supervised, pid: int) -> set[TopicPartition]:
    """Return the partitions that a process has."""
    found: set[TopicPartition] = set()
    for event in moves(crew, pid):
        (found.add if isinstance(event, Assigned) else found.discard)(event.partition)
    return found


@pytest.mark.timeout(200)
def test_of_two_supervisors_with_one_id_the_older_ends(stage: Any) -> None:
    """Its members are fenced by the group; all end with the code for that, and the message says why."""
    crews = [
        Supervised(
            stage,
            2,
            *("--instance-id", "shop", "--setting", "stop_s=5"),
            name=name,
            **{"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
        )
        for name in ("older", "newer")
    ]
    crews[0].start()
    crews[0].wait_until_ready()
    crews[1].start()
    assert crews[0].wait(60.0) == 5, crews[0].log_tail()
    last = crews[0].text().splitlines()[-1]
    assert last.startswith("ehkafka: Member ")
    assert "group.instance.id" in last or "instance_id" in last
    crews[1].wait_until_ready()
    crews[1].signal(signal.SIGTERM)
    assert crews[1].wait(30.0) == 0, crews[1].log_tail()
