"""Carries out many runs, each a program of its own, and keeps what each has found."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.proof.draws import Draw

# A run that ended without a result has this one instead.
NO_RESULT = "no_result"
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
        found = json.loads(texts[0])
    except ValueError:
        violations = {NO_RESULT: 1}
        found = {"seed": draw.seed, "violations": violations, "shown": lines, "faults": {}, "records": 0}
    return {**found, "took_s": round(time.monotonic() - began_s), "options": draw.arguments()}
