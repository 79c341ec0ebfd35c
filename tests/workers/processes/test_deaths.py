"""Who is charged for a child's death, and that no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ehkafka.errors import WorkerDiedError
from ehkafka.events import WorkerProcessDied
from ehkafka.workers.processes import workers as process_workers
from tests.kit.waiting import wait_until
from tests.workers.processes.conftest import CODE


def test_a_killed_child_charges_the_record_that_ran_and_no_other(crew: Any) -> None:
    """Of a batch of twenty the fourth kills: one attempt of that one is spent, the order is kept."""
    one = crew()
    one.warm_up()
    first = one.next_offset
    one.receive(*["x"] * 3, "kill 1", *["x"] * 16, keys="aaaaabcabcabcabcabca")
    one.finish_all()

    [(offset, error)] = one.failures
    assert offset == first + 3
    assert isinstance(error, WorkerDiedError)
    assert "SIGKILL" in str(error)
    ends = [int(offset) for offset, _, _ in one.lines("end")]
    assert sorted(ends) == list(range(one.next_offset))  # each once: what was finished is not repeated
    of_a = [o for o in ends if o >= first and "aaaaabcabcabcabcabca"[o - first] == "a"]
    assert of_a == sorted(of_a)
    attempts = {int(offset): int(attempt) for offset, attempt, _ in one.lines("end")}
    assert {offset for offset, attempt in attempts.items() if attempt > 1} == {first + 3}
    [death] = [event for event in one.events if isinstance(event, WorkerProcessDied)]
    assert (death.how, death.was_running) == ("signal SIGKILL", True)


def test_a_child_that_dies_idle_charges_no_record(crew: Any) -> None:
    """A killed idle child is found with the next batch, whose records never started."""
    one = crew()
    one.warm_up()
    [pid] = one.workers.pids
    os.kill(pid, signal.SIGKILL)
    one.receive("x", "x")
    one.finish_all()

    assert one.failures == []
    assert one.workers.pids != [pid]
    [death] = [event for event in one.events if isinstance(event, WorkerProcessDied)]
    assert not death.was_running


def test_an_overdue_record_costs_its_child_and_is_charged_alone(crew: Any) -> None:
    """The child is killed at the deadline; only the record that ran spends an attempt."""
    one = crew(deadline_s=0.3)
    one.receive("sleep 60", "x", "x")
    one.wait(lambda: one.failures and one.finished() == 2)

    assert {offset for offset, _ in one.failures} == {0}
    assert isinstance(one.failures[0][1], TimeoutError)
    assert "0.3 s" in str(one.failures[0][1])


def test_a_set_up_that_raises_is_raised_by_the_start(crew: Any, handlers: Any) -> None:
    """As with threads; and no child is left."""
    one = crew(2, start=False, set_up=handlers.set_up)
    (one.directory / "refuse").touch()

    with pytest.raises(ConnectionError, match="no pool"):
        one.workers.start()


def test_a_child_that_dies_before_it_is_ready_says_so(crew: Any, handlers: Any) -> None:
    """The start raises; nothing waits for ever."""
    one = crew(start=False, set_up=handlers.set_up)
    (one.directory / "die").touch()

    with pytest.raises(WorkerDiedError, match=r"exit code 9.*before it was ready"):
        one.workers.start()


def test_a_child_that_cannot_be_started_again_fails_the_app(
    crew: Any, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few tries with growing waits in between the pool gives up visibly."""
    monkeypatch.setattr(process_workers, "START_AGAIN_S", 0.01)
    one = crew(set_up=handlers.set_up)
    (one.directory / "refuse").touch()
    one.receive("kill 9")
    one.wait(lambda: one.deaths)

    assert isinstance(one.deaths[0], WorkerDiedError)
    assert "5 times in a row: ConnectionError: no pool" in str(one.deaths[0])


def test_children_inherit_no_more_than_their_own_pipes(crew: Any) -> None:
    """No client's socket, no file of the parent, no other child's pipe."""
    extra = os.open(CODE, os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        one = crew(2)
        counts = [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in one.workers.pids]
    finally:
        os.close(extra)

    assert counts == [6, 6]  # stdin, stdout, stderr and three of ours


PROGRAM = """
import sys, time
sys.path.insert(0, {code!r})
import process_handlers
from ehkafka.handlers.call import HandlerCall
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import Record, TopicPartition
from tests.kit.simulated.message import SimulatedMessage
from ehkafka.workers.hub import Hub
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.workers import ProcessWorkers
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.protocol import PoolOptions
inboxes = Inboxes(2, make_inbox=ChildInbox)
hub = Hub(inboxes, time.monotonic)
names = ("on_stop", "emit")
options = PoolOptions(name="p", size=2, on_failure=print, on_death=print)
pool = ProcessWorkers(hub, Processes(2), options=options, parts={{}}, **dict.fromkeys(names, print),
    call=HandlerCall(process_handlers.handle, (), Record))
pool.start()
hub.receive([(inboxes.assign(TopicPartition("t", 0), 1), [SimulatedMessage("t", 0, 0, b"k", b"wait")], [b"k"],
    (), [1])])
print(*pool.pids, flush=True)
time.sleep(60)
"""


def test_a_killed_parent_takes_its_children_along(tmp_path: Path, handlers: Any) -> None:
    """An idle child and one in the midst of a record both end when the parent is gone."""
    source = textwrap.dedent(PROGRAM).format(code=str(CODE))
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.readline().split()
        lines = tmp_path / "lines"
        wait_until(lambda: lines.exists() and "start" in lines.read_text())
        parent.kill()
        wait_until(lambda: not [pid for pid in pids if is_alive(pid)])
    assert len(pids) == 2


def is_alive(pid: str) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
