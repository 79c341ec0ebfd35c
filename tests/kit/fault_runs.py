"""A fault row's run: the seed it draws from, and what `scripts/faults` reads of it.

`EHKAFKA_FAULTS_FILE` names a file that gets lines of JSON. `EHKAFKA_FAULTS_SEED` numbers the run: keys,
pauses and what is killed differ from run to run. Which thread has a CPU when is in no seed.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.checker.verdict import Verdict

SEED = int(os.environ.get("EHKAFKA_FAULTS_SEED", "0"))


def dice_of(name: object) -> random.Random:
    """Return what a row draws from: the same in each run of a seed."""
    return random.Random(f"{name}, seed {SEED}")


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
