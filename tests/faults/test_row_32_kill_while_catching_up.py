"""Row 32: a static member is killed again and again while it works off a backlog."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.checker.history_event import Finished, Started
from tests.kit.checker.history_file import read_history
from tests.kit.fault_runs import SCALE, dice_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

KILLS = 2
KEYS = 1_000
# Between the first record of a life and its end.
LIFE_S = 3.0
# What 16 workers with 10 ms a record do in a life, and as much again.
RECORDS_A_LIFE = 10_000
# A backlog as large as it gets while the last life lasts.
RECORDS_LEFT = 30_000
# A sixteenth of a second of work, twice, and what was on its way.
REPEATS_MAX = 300


@pytest.mark.timeout(600)
def test_row_32_a_kill_while_catching_up_repeats_little(
    kafka: KafkaBroker, stage_on: Callable[..., Any]
) -> None:
    """Commits follow the outcomes, and say what is finished above them, however large the backlog is."""
    stage = stage_on(kafka, 16)
    kills = KILLS * SCALE
    load, dice = stage.load(), dice_of(32)
    # No key so frequent that its worker falls behind all others: what is finished above it would not fit.
    for _ in range(RECORDS_A_LIFE * kills + RECORDS_LEFT):
        load.put(b"key-%d" % dice.randrange(KEYS))
    load.produce(0)
    member = stage.member(
        "member", "--handler-ms", "0-20", "--workers", "16", "--instance-id", "one",
        "--setting", "stop_s=1", consumer={"session.timeout.ms": 6_000},
    )  # fmt: skip
    for _ in range(kills + 1):
        member.start()
        history: Path = member.histories[-1]
        wait_until(lambda of=history: b'"event":"Started"' in of.read_bytes(), stage.logs)
        time.sleep(LIFE_S)
        member.kill()
    # What is left in the log is not worked off: that would take longer than all else.
    verdict = stage.verdict()
    assert (verdict.lost, verdict.premature_commits, verdict.order_violations) == (0, 0, 0), verdict.report()
    repeats = repeats_by_life(member.histories)
    assert max(repeats) <= REPEATS_MAX, repeats


def repeats_by_life(histories: list[Path]) -> list[int]:
    """Return how many records each life but the first started that an earlier one had finished."""
    finished: set[tuple[Any, int]] = set()
    repeats: Counter[int] = Counter()
    for life, path in enumerate(histories):
        ended = set()
        for event in read_history([path]):
            if isinstance(event, Started) and (event.partition, event.offset) in finished:
                repeats[life] += 1
            elif isinstance(event, Finished):
                ended.add((event.partition, event.offset))
        finished |= ended
    return [repeats[life] for life in range(1, len(histories))]
