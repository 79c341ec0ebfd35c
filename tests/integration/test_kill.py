"""Members are killed with -9 and started again under load; `EHKAFKA_LONG=1` kills twenty times."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from tests.kit.waiting import wait_until

pytestmark = pytest.mark.broker

KILLS = 20 if os.environ.get("EHKAFKA_LONG") == "1" else 4
RATE = 500.0
COMMIT_S = 0.25
# Between a member's assignment and its death: some die before their first commit, most after it.
LIFE_S = (0.0, 1.0)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("membership", ["dynamic", "static"])
def test_kills_under_load_lose_nothing(stage: Any, membership: str) -> None:
    """Kill -9 and restart again and again: all is finished, nothing committed early, repeats are bounded."""
    dice = random.Random(20)
    load = stage.load(RATE)
    load.start()
    members = [
        stage.member(f"member-{number}", *arguments(number, membership), consumer=session(membership))
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
    stage.stop_members()
    verdict = stage.judged()
    assert verdict.produced == load.count
    # One that was killed before its first record is not in the history.
    assert verdict.processes > KILLS
    # Without commits between the kills the bound would allow anything.
    assert verdict.commits_acknowledged > KILLS, verdict.summary()


def arguments(number: int, membership: str) -> list[str]:
    """Return a member's command line."""
    settings = (f"commit_interval_s={COMMIT_S}", "drain_s=2", "backlog_records_max=2000")
    pace = ["--handler-ms", "0-5", *(part for setting in settings for part in ("--setting", setting))]
    return [*pace, "--instance-id", f"member-{number}"] if membership == "static" else pace


def session(membership: str) -> dict[str, int]:
    """Return a session that a static member's restart does not outlast, or the shortest one."""
    return {"session.timeout.ms": 6000 if membership == "static" else 1000}
