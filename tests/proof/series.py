"""Carries out many runs, each a program of its own, and keeps what each has found."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.proof.options import BY_HAND, MEMBER_FAULTS, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.proof.draws import Draw

# A run that ended without a result has this one instead.
NO_RESULT = "no_result"
# And one that has not tried what was drawn.
NOTHING_TRIED = "nothing_tried"
TAIL_LINES = 15


def carry_out(
    draws: Sequence[Draw],
    *,
    parallel: int,
    show: Callable[[str], object],
    done: Callable[[dict[str, Any]], object],
) -> None:
    """Carry out these runs, so many at once; `show` gets lines of progress, `done` each result."""
    lock = threading.Lock()

    def run(draw: Draw) -> None:
        result = one(draw, show)
        with lock:
            done(result)

    with ThreadPoolExecutor(parallel) as pool:
        for ended in [pool.submit(run, draw) for draw in draws]:
            ended.result()


def one(draw: Draw, show: Callable[[str], object]) -> dict[str, Any]:
    """Carry out one run and return its result, with the options that it had."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "tests.proof.run", *draw.arguments()]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        lines: list[str] = []
        texts: list[str] = []
        # Meanwhile: a long result fills its pipe, and the run would wait for ever, as would this reader.
        reader = threading.Thread(target=lambda stream: texts.append(stream.read()), args=(process.stdout,))
        reader.start()
        for line in process.stderr:
            lines = [*lines[1 - TAIL_LINES :], line.rstrip()]
            show(f"seed {draw.seed}: {line.rstrip()}")
        reader.join()
    found: dict[str, Any]
    try:
        found = untried(json.loads(texts[0]), draw.arguments())
    except ValueError:
        violations = {NO_RESULT: 1}
        found = {"seed": draw.seed, "violations": violations, "shown": lines, "faults": {}, "records": 0}
    return {**found, "took_s": round(time.monotonic() - began_s), "options": draw.arguments()}


def untried(result: dict[str, Any], arguments: Sequence[str]) -> dict[str, Any]:
    """Return a result with a violation for each thing that was drawn and has not been tried at all."""
    asked, faults = parse(None, arguments), result["faults"]
    of_members = [name for name in asked.faults if name in MEMBER_FAULTS]
    of_nodes = [name for name in asked.faults if name not in MEMBER_FAULTS]
    counts = {
        "dead letters": result["letters"],
        "commits that were read": result["checks"],
        "commits in the log": result["commits"],
        **{f"records of level {level}": count for level, count in enumerate(result["records_by_level"])},
    }
    if not {*asked.kind} <= {*BY_HAND}:
        counts["ranges"] = result["ranges_seen"]
    for what, names in (("members", of_members), ("nodes", of_nodes)):
        if names:
            counts[f"faults of {what}"] = sum(faults.get(name, 0) for name in names)
    texts = [f"{NOTHING_TRIED}: no {what}" for what, count in counts.items() if not count]
    if not texts:
        return result
    violations = {**result["violations"], NOTHING_TRIED: len(texts)}
    return {**result, "violations": violations, "shown": [*result["shown"], *texts]}
