"""What the members' programs share: their options, their clock, their history, and their end.

The options are JSON on the command line and stand in the environment, so that worker processes have them too.
A member's wall clock can be stepped: its file says by how many seconds.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import threading
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.checker.history_file import JsonLinesHistory
from tests.kit.member import end_with_parent
from tests.proof.work import IN_VAIN, LARGE_BYTES, Asked, asked_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPTIONS, MARK = "PROOF_MEMBER", "PROOF_MARK"
CLOCK_PAUSE_S = 0.1


class Memberships(JsonLinesHistory):
    """A history of assignments alone: the checker waits for members that have partitions, and judges none."""

    def _nothing(self, *_: object) -> None:
        """Note nothing."""

    received = started = finished = _nothing  # type: ignore[assignment]
    commit_requested = commit_acknowledged = _nothing  # type: ignore[assignment]


@cache
def options() -> dict[str, Any]:
    """Return what the checker has asked for."""
    found: dict[str, Any] = json.loads(os.environ[OPTIONS])
    return found


@cache
def mark() -> bytes:
    """Return the name of this start of this member, as its outputs have it."""
    return os.environ[MARK].encode()


def main(description: str | None, run: Callable[[JsonLinesHistory], int]) -> int:
    """Set all up and run; the result is the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=end_with_parent, name="parent-watch", daemon=True).start()
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--history", required=True)
    parser.add_argument("--options", required=True, help="as JSON")
    asked = parser.parse_args()
    os.environ[OPTIONS] = asked.options
    os.environ[MARK] = f"{options()['name']}.{os.getpid()}"
    threading.Thread(target=step_clock, args=(Path(options()["clock"]),), daemon=True).start()
    with Memberships(asked.history) as history:
        return run(history)


def asked_by(record: Any) -> Asked:
    """Read what a record asks for at this level."""
    return asked_of(record.value(), options()["level"])


def output_of(record: Any, place: int, begin_ns: int) -> bytes:
    """Return an output, which names its record and what has handled it since when."""
    source = record.partition(), record.offset()
    output = asked_by(record).output(place, source, mark(), begin_ns, time.monotonic_ns())
    is_large = place == 1 if asked_by(record).action == "both" else asked_by(record).action == "large"
    return output + b" " + bytes(LARGE_BYTES) if is_large and place != IN_VAIN else output


def outputs_at(record: Any, places: Sequence[int], begin_ns: int) -> list[bytes]:
    """Return the outputs of these places."""
    return [output_of(record, place, begin_ns) for place in places]


def step_clock(path: Path) -> None:
    """Let `time.time` be wrong by what the file says."""
    true, wrong_by = time.time, [0.0]
    time.time = lambda: true() + wrong_by[0]
    while True:
        time.sleep(CLOCK_PAUSE_S)
        text = path.read_text() if path.exists() else ""
        wrong_by[0] = float(text or "0")
