"""A fault row's run: the seed it draws from, and what `scripts/faults` reads of it.

`EHKAFKA_FAULTS_FILE` names a file that gets lines of JSON. `EHKAFKA_FAULTS_SEED` numbers the run: keys,
pauses and what is killed differ from run to run. Which thread has a CPU when is in no seed.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.checker.verdict import Verdict

SEED = int(os.environ.get("EHKAFKA_FAULTS_SEED", "0"))
# How many times longer than in a quick run the rows are.
SCALE = int(os.environ.get("EHKAFKA_FAULTS_SCALE", "1"))


def dice_of(name: object) -> random.Random:
    """Return what a row draws from: the same in each run of a seed."""
    return random.Random(f"{name}, seed {SEED}")


def judge(stage: Any, recovery_s: Sequence[float] = (), *, thawed: bool = False) -> None:
    """Judge a row's run when everything has stopped, and note it for the table.

    With `thawed` duplicates need no explanation: a process that was frozen for longer than its session goes
    on with records of partitions that it no longer has, until it hears of it; no client can help that.
    """
    verdict = stage.verdict()
    note_recovery(recovery_s)
    assert verdict.ok or (thawed and not verdict.violations), verdict.report()


def note_verdict(group: str, verdict: Verdict) -> None:
    """Note what a group's histories say; where it is asked again, the last one counts."""
    _note({"group": group, **verdict.as_dict()})


def note_recovery(recovery_s: Sequence[float]) -> None:
    """Note how long it took, each time, until all was well again."""
    _note({"recovery_s": [*recovery_s]})


def _note(found: dict[str, object]) -> None:
    if path := os.environ.get("EHKAFKA_FAULTS_FILE"):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
        with Path(path).open("a") as lines:
            lines.write(json.dumps({"test": test, **found}) + "\n")
