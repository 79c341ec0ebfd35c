"""Runs a side that handles one record at a time as several processes of one group, and adds up their lines.

Standard library only. That is how such a library is scaled: as many processes as the topic has partitions at
most. Each child is the same program with the kind "threads", and all of them end with their parent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol import Options, Report

END_S = 10.0


def run_fleet(options: Options, report: Report) -> None:
    """Run until the side is to end; ready once all children are."""
    given = json.loads(sys.argv[1]) | {"kind": "threads"}
    command = [sys.executable, sys.argv[0], json.dumps(given)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(min(options.workers, options.partitions))
    ]
    ready = threading.Barrier(len(children) + 1)
    for child in children:
        read = _reader(child, report.cell(), ready, report)
        threading.Thread(target=read, daemon=True).start()
    try:
        ready.wait()
        report.ready()
        report.wait()
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(END_S)


def _reader(
    child: subprocess.Popen[str], handled: list[int], ready: threading.Barrier, report: Report
) -> Callable[[], None]:
    def read() -> None:
        assert child.stdout is not None
        for text in child.stdout:
            line = json.loads(text)
            if "ready" in line:
                ready.wait()
            else:
                handled[0] = line.get("handled", handled[0])
        # A child that has ended by itself ends them all.
        ready.abort()
        report.stopping.set()

    return read
