"""A member's process as its supervisor sees it: started, spoken to, killed, buried.

Started afresh by the interpreter's own command line, never forked: no client, socket or other member's pipe
of the supervisor is there. Its arguments are two numbers. Main thread only: the kernel kills a member when
the *thread* that has started it ends.

Grandchildren whose parent has ended fall to a supervisor that is process 1, and only that can reap them: a
container's first process has that duty; without it each ended worker process of a killed member would stay as
a zombie. A member's own end is left to the caller that waits for it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import time
from binascii import b2a_base64
from typing import IO, TYPE_CHECKING, Final

from ehkafka.members.channel import Channel
from ehkafka.members.orders import HELD
from ehkafka.workers.processes.link import spawned

if TYPE_CHECKING:
    from collections.abc import Collection


class MemberProcess:
    """One running process of a member. `close` once it has ended.

    `outputs` are the descriptors of its standard output and error, which the caller reads and then closes.
    """

    def __init__(self, boot: bytes) -> None:
        """Start it. Raises `OSError` when the system cannot."""
        ours, theirs = socket.socketpair()
        connection = theirs.fileno()
        try:
            self._process = spawned(
                "ehkafka.members.child",
                connection,
                os.getpid(),
                inherited=(connection,),
                held=HELD,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.outputs = _taken(self._process.stdout), _taken(self._process.stderr)
        self.started_s = time.monotonic()
        self.channel = Channel(ours)
        self.channel.send(b2a_base64(boot))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return how it ended, negative for a signal; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it at once; a suspended one, too."""
        self._process.kill()

    def close(self) -> None:
        """Kill what still runs, and let go of everything."""
        self.kill()
        self._process.wait()
        self.channel.close()


def _taken(stream: IO[bytes] | None) -> int:
    assert stream is not None
    fd = os.dup(stream.fileno())
    stream.close()
    return fd


_PR_GET_CHILD_SUBREAPER: Final = 37


def must_reap() -> bool:
    """Tell whether orphans fall to this process: as process 1, or as a subreaper."""
    if os.getpid() == 1:
        return True
    found = ctypes.c_int(0)
    try:
        asked = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    except (OSError, AttributeError):  # not on Linux
        return False
    return asked == 0 and bool(found.value)


def reap(own: Collection[int]) -> list[int]:
    """Reap every child that has ended and is none of `own`; return their process ids."""
    reaped: list[int] = []
    while True:
        try:
            # Only looked at: one of ours keeps its exit code for the one who asks it.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return reaped
        # One of ours stands before the others until it is waited for, which the next turn does.
        if found is None or found.si_pid in own:
            return reaped
        os.waitpid(found.si_pid, 0)
        reaped.append(found.si_pid)
