"""Members are killed with -9 and started again under load; `EHKAFKA_LONG=1` kills twenty times.

And static members as well, which row 33 kills in each run.
"""

from __future__ import annotations

import json
import os
import random
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ehkafka.cli.commands import cli
from ehkafka.offsets.owners import LATE_S
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

IS_LONG = os.environ.get("EHKAFKA_LONG") == "1"
KILLS = 20 if IS_LONG else 4
RATE = 500.0
COMMIT_S = 0.25
# Between a member's assignment and its death: some die before their first commit, most after it.
LIFE_S = (0.0, 1.0)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("membership", ["dynamic", "static"] if IS_LONG else ["dynamic"])
def test_kills_under_load_lose_nothing(
    stage: Any, membership: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill -9 and restart again and again: all is finished, nothing committed early, repeats are bounded.

    `ehkafka owners` names each partition's process, and as gone the killed one that has no successor.
    """
    dice = random.Random(20)
    load = stage.load(RATE)
    load.start()
    members = [
        stage.member(
            f"member-{number}", *arguments(number, membership, tmp_path), consumer=session(membership)
        )
        for number in range(2)
    ]
    for member in members:
        member.start()
    for _ in range(KILLS):
        victim = dice.choice(members)
        wait_until(victim.assigned, lambda: f"every member has partitions\n{stage.logs()}")
        time.sleep(dice.uniform(*LIFE_S))
        victim.kill()
        victim.start()
    load.stop()
    stage.wait_until_committed(load.ends)
    pids = [str(member.pid) for member in members]
    wait_until(lambda: owners(stage, tmp_path) == {("owned", pid) for pid in pids}, stage.logs)
    stage.stop_members(members[0])
    wait_until(lambda: owners(stage, tmp_path) == {("owned", pids[1])}, stage.logs)
    members[1].kill()
    time_then_s = time.time() + LATE_S + 5.0
    monkeypatch.setattr("ehkafka.cli.owners.time", SimpleNamespace(time=lambda: time_then_s))
    wait_until(lambda: owners(stage, tmp_path) == {("gone", pids[1])}, stage.logs)
    verdict = stage.judged()
    assert verdict.produced == load.count
    # One that was killed before its first record is not in the history.
    assert verdict.processes > KILLS
    # Without commits between the kills the bound would allow anything.
    assert verdict.commits_acknowledged > KILLS, verdict.summary()


def owners(stage: Any, folder: Path) -> set[tuple[str, str]]:
    """Return the states of partitions and the processes of their owners, as `ehkafka owners` shows them."""
    place = ["--group", stage.group, "--endpoint", stage.broker.bootstrap]
    mirror = ["--mirror", str(folder), "--namespace", "ns"]
    ended = CliRunner().invoke(cli, ["owners", stage.topic, *place, *mirror, "--json"])
    assert ended.exit_code == 0, ended.stderr
    # Host, process, random digits.
    rows = json.loads(ended.stdout)["partitions"]
    return {(row["state"], f"-{row['owner']}".rsplit("-", 2)[1]) for row in rows}


def arguments(number: int, membership: str, folder: Path) -> list[str]:
    """Return a member's command line."""
    settings = (f"commit_interval_s={COMMIT_S}", "drain_s=2", "backlog_records_max=2000")
    pace = ["--handler-ms", "0-5", *(part for setting in settings for part in ("--setting", setting))]
    pace += ["--mirror", str(folder)]
    return [*pace, "--instance-id", f"member-{number}"] if membership == "static" else pace


def session(membership: str) -> dict[str, int]:
    """Return a session that a static member's restart does not outlast, or the shortest one."""
    return {"session.timeout.ms": 6000 if membership == "static" else 1000}
