"""Members of a group come, go and are killed: who has what, and what the table of the owners says of it."""

from __future__ import annotations

import os
import random
import time
import uuid
import zlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from typer.testing import CliRunner

import ehkafka
from ehkafka.cli.commands import cli
from ehkafka.offsets.owners import LATE_S, read_owners
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kit.azurite import Azurite
    from tests.kit.processes import MemberProcess

pytestmark = pytest.mark.broker

PARTITIONS = 5
# No key of the load goes there.
IDLE = 4
KEYS = [key for key in (b"key-%d" % n for n in range(1000)) if zlib.crc32(key) % PARTITIONS != IDLE]
SESSION_S = 2.0
TAKE_OVER_SLACK_S = 5.0
KILLS = 10 if os.environ.get("EHKAFKA_LONG") == "1" else 1


class Group:
    """A group of processes that mirror into one container."""

    def __init__(self, stage: Any, container: str, storage: Path) -> None:
        self.stage = stage
        self.running: list[MemberProcess] = []
        self._container, self._storage = container, storage
        self._store = ehkafka.BlobMirror.connection_string(storage, container).open_store()

    def start(self, count: int) -> None:
        """Start so many more members."""
        options = ["--handler-ms", "0-5", "--setting", "commit_interval_s=0.5"]
        options += ["--container", self._container, "--storage", str(self._storage)]
        session = {"session.timeout.ms": int(SESSION_S * 1000)}
        for _ in range(count):
            name = f"member-{len(self.stage.members)}"
            self.running.append(self.stage.member(name, *options, consumer=session))
            self.running[-1].start()

    def stop(self, count: int) -> None:
        """Stop so many, the oldest first; each must end well."""
        leaving, self.running = self.running[:count], self.running[count:]
        self.stage.stop_members(*leaving)

    def kill(self, member: MemberProcess) -> None:
        """Kill one."""
        self.running.remove(member)
        member.kill()

    def is_settled(self) -> bool:
        """Tell whether all partitions are shared out evenly, and the owners have written the same."""
        shares = [member.assigned() for member in self.running]
        sizes = [len(share) for share in shares]
        is_even = max(sizes) - min(sizes) <= 1 and sum(sizes) == len(set().union(*shares)) == PARTITIONS
        return is_even and self._written() == {
            one.partition: member.pid for member in self.running for one in member.assigned()
        }

    def reported(self) -> str:
        """Return what a failed wait shows."""
        return f"{len(self.running)} processes, owners {self._written()}\n{self.stage.logs()}"

    def table(self) -> list[dict[str, Any]]:
        """Return the rows of `ehkafka owners`."""
        place = ["--group", self.stage.group, "--endpoint", self.stage.broker.bootstrap]
        mirror = ["--mirror", self._container, "--namespace", "ns"]
        environment = {"EHKAFKA_MIRROR_CONNECTION_STRING_FILE": str(self._storage)}
        ended = CliRunner().invoke(
            cli, ["owners", self.stage.topic, *place, *mirror, "--json"], env=environment
        )
        assert ended.exit_code == 0, ended.stderr
        rows: list[dict[str, Any]] = orjson.loads(ended.stdout)["partitions"]
        return rows

    def pids(self) -> set[int]:
        """Return whose partitions the table shows as held, each of the topic being there."""
        rows = self.table()
        assert [row["partition"] for row in rows] == list(range(PARTITIONS))
        assert {row["state"] for row in rows} == {"held"}
        return {pid(row["owner"]) for row in rows}

    def close(self) -> None:
        """Let connections go."""
        self._store.close()

    def _written(self) -> dict[int, int]:
        found = read_owners(self._store, "ns", self.stage.group, self.stage.topic)
        return {number: pid(text.owner) for number, (text, _) in found.items() if not text.is_released}


def pid(owner: str) -> int:
    """Return the process of an owner's name: host, process, random digits."""
    return int(owner.rsplit("-", 2)[1])


@pytest.fixture
def group(stage_on: Callable[..., Any], kafka: Any, azurite: Azurite, tmp_path: Path) -> Iterator[Group]:
    """Return a group without members yet."""
    container = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(container)
    storage = tmp_path / "storage"
    storage.write_text(azurite.connection_string())
    found = Group(stage_on(kafka, PARTITIONS), container, storage)
    yield found
    found.close()


@pytest.mark.timeout(900 if KILLS > 1 else 120)
def test_partitions_and_the_owners_table_follow_processes_that_come_go_and_die(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, 4, more than partitions, 3 processes, one killed: even shares, a quick take-over, a true table.

    The table shows every partition with its owner, the idle one too, and a killed owner only until there is
    a new one; where there is none, as gone.
    """
    stage, dice = group.stage, random.Random(2)
    load = stage.load(1000.0, keys=KEYS)
    load.start()
    for more in (1, 3):
        group.start(more)
        wait_until(group.is_settled, group.reported)
    assert group.pids() == {member.pid for member in group.running}
    for _ in range(KILLS):
        group.start(PARTITIONS + 1 - len(group.running))
        wait_until(group.is_settled, group.reported)
        killed = dice.choice([member for member in group.running if member.assigned()])
        group.kill(killed)
        wait_until(group.is_settled, group.reported, SESSION_S + TAKE_OVER_SLACK_S)
        assert group.pids() == {member.pid for member in group.running}
        group.stop(2)
        wait_until(group.is_settled, group.reported)
    load.stop()
    stage.wait_until_committed(load.ends)
    assert IDLE not in load.ends
    group.stop(2)
    wait_until(group.is_settled, group.reported)
    assert [row["lag"] for row in group.table()] == [0] * PARTITIONS
    (last,) = group.running
    group.kill(last)
    time_then_s = time.time() + LATE_S + 1.0
    monkeypatch.setattr("ehkafka.cli.owners.time", SimpleNamespace(time=lambda: time_then_s))
    wait_until(lambda: {row["state"] for row in group.table()} == {"gone"}, group.reported)
    stage.judged()
