"""reset= with others: a group that lives is never reset, and replicas under one name reset it once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ehkafka.embedded.topics import produce
from ehkafka.errors import GroupInUseError
from tests.kit.checker.history_event import Finished
from tests.kit.checker.history_file import read_history
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.broker

PARTITIONS = 8


def write(stage: Any, records: int) -> None:
    """Write so many records to each partition."""
    for partition in range(PARTITIONS):
        keyed = [(b"k%d" % number, b"x") for number in range(records)]
        produce(stage.broker.bootstrap, stage.topic, keyed, partition=partition)


def test_a_group_with_a_member_is_not_reset(stage: Any) -> None:
    """With start=latest the second member would have passed over half of the records."""
    handled: list[tuple[int, int]] = []
    first = stage.app(lambda record: handled.append((record.partition(), record.offset())), start="latest")
    first.start()
    wait_until(lambda: stage.committed() == dict.fromkeys(range(PARTITIONS), 0), stage.committed)
    write(stage, 50)
    second = stage.app(start="latest", reset=True)
    with pytest.raises(GroupInUseError, match="Nothing was moved") as refused:
        second.start()
    assert refused.value.exit_code == 5
    stage.wait_until_committed(dict.fromkeys(range(PARTITIONS), 50))
    first.stop()
    lost = {(partition, offset) for partition in range(PARTITIONS) for offset in range(50)} - set(handled)
    assert not lost, f"FACT: {len(lost)} of 400 records were never handled"


def test_replicas_under_one_name_reset_once_and_lose_nothing(stage: Any) -> None:
    """Three begin together, one is killed and begins again: what is written after the reset is handled."""
    write(stage, 50)
    stage.broker.set_committed(stage.group, {(stage.topic, number): 10 for number in range(PARTITIONS)})
    settings = ("--setting", 'reset="june"', "--start", "latest", "--setting", "commit_interval_s=0.2")
    replicas = [stage.member(f"replica-{number}", *settings) for number in range(3)]
    for replica in replicas:
        replica.start()
    wait_until(lambda: all(replica.assigned() for replica in replicas), stage.logs)
    assert stage.committed() == dict.fromkeys(range(PARTITIONS), 50)
    write(stage, 50)
    stage.wait_until_committed(dict.fromkeys(range(PARTITIONS), 100))
    replicas[0].kill()
    write(stage, 50)
    replicas[0].start()
    stage.wait_until_committed(dict.fromkeys(range(PARTITIONS), 150))
    wait_until(replicas[0].assigned, stage.logs)
    stage.stop_members()
    text = "".join(replica.log.read_text() for replica in replicas)
    resets = re.findall(r".*was reset to start=.*", text)
    assert len(resets) == 1, f"FACT: {resets}"
    events = read_history([path for replica in replicas for path in replica.histories])
    finished = {(one.partition.partition, one.offset) for one in events if isinstance(one, Finished)}
    wanted = {(number, offset) for number in range(PARTITIONS) for offset in range(50, 150)}
    assert not wanted - finished, f"FACT: {len(wanted - finished)} records were never handled"
