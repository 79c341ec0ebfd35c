"""Kills a broker whose owner died: `python -I -S orphan_watch.py OWNER_PID BROKER_PID DIRECTORY`.

A process of its own next to each broker, started by `BrokerProcess`. It sleeps until one of the two
processes ends. When that is the owner (killed, crashed, closed by its terminal), it kills the broker
and removes the directory; when it is the broker, nothing is left to do.

Why not PR_SET_PDEATHSIG: it fires when the *thread* that started the child ends, and a fixture may
run in a short-lived one. Uses the standard library alone; imports nothing of the package. Linux only,
where a process can be named by a descriptor that no later process inherits by number.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys


def main(owner_pid: int, broker_pid: int, directory: str) -> None:
    """Wait for the end of either process."""
    try:
        broker = os.pidfd_open(broker_pid)
    except ProcessLookupError:
        return
    if owner_lives(owner_pid, broker):
        return
    try:
        signal.pidfd_send_signal(broker, signal.SIGKILL)
    except ProcessLookupError:
        pass
    else:
        select.select([broker], [], [], 10.0)
    shutil.rmtree(directory, ignore_errors=True)


def owner_lives(owner_pid: int, broker: int) -> bool:
    """Return when the broker ends (True) or its owner does (False)."""
    try:
        owner = os.pidfd_open(owner_pid)
    except ProcessLookupError:
        return False
    # The number may have passed to a stranger before we opened it; our parent tells the truth.
    if os.getppid() != owner_pid:
        return False
    ended, _, _ = select.select([owner, broker], [], [])
    return owner not in ended


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
