"""Which process of a parallel run gets which tests: whole files, the long ones first, one Spark for all.

Long tests keep the cores busy, and what is left, such as the contract, mostly waits. So every third process
begins with the quick rooms, next to them: one after the other, each half would leave the other's time unused.

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
# Files and tests that are long, too, and take no session: they start Sparks of their own, or need none.
# The session's tests end last, so each minute of others among them is waited for.
OWN_SPARK = {
    f"{SPARK}{name}"
    for name in (
        "engine/test_command.py",
        "engine/test_group.py",
        "engine/test_group_commits.py",
        "engine/test_row_28.py::test_row_28_a_killed_driver",
        "engine/test_task_outputs.py",
        "sink/test_two_phases.py",
        "source/test_made_anew.py",
        "test_home_security_spark.py::test_one_command_runs_it_all_on_spark",
        "test_home_security_spark.py::test_a_hundred_homes_are_as_the_topic_says_although_spark_was_killed",
        "test_older_pyspark.py",
        "test_standalone_cluster.py",
        "test_workers_python.py",
    )
}
# All processes wait for a long file that begins last, also for one of few tests. The quick rooms fill up what
# is left of the time.
LONG_FIRST = tuple(
    f"tests/{place}"
    for place in (
        "spark/",
        "docs/test_site.py",
        "faults/",
        "integration/",
        "proof/",
        "live/",
        "examples/",
        "members/",
        "cli/",
        "wheel/",
        "peers/",
        "workers/processes/",
        "http/page/",
        "testing/test_kafka_broker.py",
        "testing/test_checker_oracle.py",
        "contract/test_app_outputs_owners.py",
        "contract/test_app_observability.py",
        "contract/test_app_stopped_process.py",
        "transactions/test_search.py",
        "typing/test_programs.py",
    )
)
QUICK_EACH = 3


class LongFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out files of tests; those that share the session of Spark are one."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the file that a test is in, the test where it goes alone, or what stands for the session."""
        if nodeid in OWN_SPARK:
            return nodeid
        path = nodeid.partition("::")[0]
        return SPARK if path.startswith(SPARK) and path not in OWN_SPARK else path

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process the file whose turn it is; within a room the one with the most tests."""
        turn = _turn_of_quick if _begins_with_quick(node) else _turn
        self.workqueue.move_to_end(min(self.workqueue, key=turn), last=False)
        super()._assign_work_unit(node)


def _begins_with_quick(node: WorkerController) -> bool:
    number = int(node.gateway.id.removeprefix("gw"))
    return number % QUICK_EACH == QUICK_EACH - 1


def _turn(scope: str) -> int:
    rooms = (at for at, room in enumerate(LONG_FIRST) if scope.startswith(room))
    return next(rooms, len(LONG_FIRST))


def _turn_of_quick(scope: str) -> int:
    # The session of Spark is for the process that has it already.
    return -_turn(scope)
