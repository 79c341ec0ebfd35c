"""Which process of a parallel run gets which tests: whole files, the long ones first, one Spark for all.

A session of Spark, warm, runs a query in a second; each process that starts one of its own pays that start
and that warm-up again. And a file's own servers are started once where its tests stay together. Called by
pytest-xdist in the process that hands tests out, where `--dist loadfile` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler.loadscope import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

SPARK = "tests/spark/"
# They start Sparks of their own, and none of their tests takes the session.
OWN_SPARK = {f"{SPARK}{name}" for name in ("engine/test_command.py", "test_standalone_cluster.py")}
# A long file that begins last is waited for by everybody. The quick rooms fill up what is left of the time.
LONG_FIRST = (SPARK, *(f"tests/{room}/" for room in ("faults", "integration", "examples", "members", "cli")))


class LongFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out files of tests; those that share the session of Spark are one."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the file that a test is in, or what stands for all files of the session."""
        path = nodeid.partition("::")[0]
        return SPARK if path.startswith(SPARK) and path not in OWN_SPARK else path

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process the file whose turn it is; within a room the one with the most tests."""
        self.workqueue.move_to_end(min(self.workqueue, key=_turn), last=False)
        super()._assign_work_unit(node)


def _turn(scope: str) -> int:
    rooms = (at for at, room in enumerate(LONG_FIRST) if scope.startswith(room))
    return next(rooms, len(LONG_FIRST))
