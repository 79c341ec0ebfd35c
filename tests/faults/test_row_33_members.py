"""Row 33: members under a supervisor are killed at random, with static ids and without.

Quick by default; `scripts/faults --row 33 --scale 10` runs two minutes of each.
"""

from __future__ import annotations

import itertools
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.checker.history_event import Finished
from tests.kit.checker.history_file import read_history
from tests.kit.fault_runs import SCALE, dice_of, judge
from tests.kit.processes import Supervised
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

MEMBERS = 4
PARTITIONS = 8
RATE = 200.0
DURATION_S, DURATION_IN_A_LONG_RUN_S = 8.0, 12.0
FIRST_KILL_S = 1.0
# Dynamic members are missed for a session time-out after each kill; in less nothing would happen between two.
KILL_EVERY_S = {"static": 3.0, "dynamic": 10.0}
SESSION_MS = 3_000
PROGRESS_S = 10.0
STOP_S = 30.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ids", ["static", "dynamic"])
def test_row_33_members_are_killed_at_random(
    kafka: KafkaBroker, stage_on: Callable[..., Any], ids: str
) -> None:
    """Every record is handled, in order; only what a killed one had not committed is repeated."""
    stage = stage_on(kafka, PARTITIONS)
    crew = Supervised(
        stage,
        MEMBERS,
        *("--handler-ms", "0-10", *(["--instance-id", "crew"] if ids == "static" else [])),
        **{"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300},
    )
    load, dice = stage.load(RATE), dice_of(33)
    crew.start()
    crew.wait_until_ready()
    load.start()
    began_s = time.monotonic()
    began_ns = time.monotonic_ns()
    duration_s = DURATION_IN_A_LONG_RUN_S * SCALE if SCALE > 1 else DURATION_S
    kills = 0
    while (at_s := FIRST_KILL_S + kills * KILL_EVERY_S[ids]) < duration_s:
        time.sleep(max(0.0, began_s + at_s - time.monotonic()))
        # However slow the machine is: killing all of them would show nothing.
        wait_until(lambda: len(running(crew)) >= MEMBERS // 2, crew.log_tail, 60.0)
        crew.kill_member(dice.choice(sorted(running(crew))))
        kills += 1
    time.sleep(max(0.0, began_s + duration_s - time.monotonic()))
    load.stop()
    stage.wait_until_committed(load.ends, 60.0)
    crew.signal(signal.SIGTERM)
    assert crew.wait(STOP_S) == 0, crew.log_tail()
    ends_ns = sorted(e.at_ns for e in read_history(crew.histories) if isinstance(e, Finished))
    longest_s = max(later - one for one, later in itertools.pairwise([began_ns, *ends_ns])) / 1e9
    judge(stage, recovery_s=[longest_s])
    assert kills
    assert longest_s < PROGRESS_S


def running(crew: Supervised) -> set[int]:
    """Return the processes that have become ready and have not ended."""
    return {pid for pid in crew.pids().values() if is_alive(pid)}


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
