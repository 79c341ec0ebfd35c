"""Worker processes: what travels, what a cut takes back, and what runs in each child."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.events import WorkersLogNothing
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import Record
from ehkafka.workers.hub import Hub
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.processes.workers import ProcessWorkers
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.rate import Pace
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_child_reads_of_a_record_what_the_parent_does(crew: Any, handlers: Any) -> None:
    """Each reading method and property of the copy gives what the original gives."""
    one = crew()
    one.receive("read")
    one.finish_all()

    message = SimulatedMessage("t", 0, 0, b"0", b"read", headers=[("a", b"\x00\xff")])

    [reported] = one.lines("read")
    assert " ".join(reported) == " ".join(map(repr, handlers._read(Record(message))))


def test_errors_come_back_as_they_were_where_they_can_be_rebuilt(crew: Any, handlers: Any) -> None:
    """The type, what it carries and the traceback in the child; else a stand-in of the same name and text."""
    one = crew()
    one.receive("reported")
    one.receive("odd")
    one.wait(lambda: len({offset for offset, _ in one.failures}) == 2)
    reported, odd = dict(one.failures)[0], dict(one.failures)[1]

    assert type(reported) is handlers.Reported
    assert reported.code == 7
    assert "raise Reported(7)" in str(reported.__cause__)
    assert type(odd) is not handlers.Odd
    assert (type(odd).__name__, type(odd).__module__) == ("Odd", "process_handlers")
    assert str(odd) == "an odd failure"
    assert isinstance(odd, Exception)
    assert "raise Odd(7" in str(odd.__cause__)


def test_a_cut_takes_a_long_batch_back_and_counts_what_the_child_has_finished(crew: Any) -> None:
    """Of a batch that takes seconds only the record that runs is waited for, and the others count."""
    one = crew(batch_s=10.0)
    one.warm_up()
    first = one.next_offset
    one.receive("x", "x", "wait", *["sleep 5"] * 3, keys="a" * 6)
    one.wait(lambda: one.lines("start")[-1][0] == str(first + 2))
    with one.hub.locked() as inboxes:
        inboxes.ending.drain([one.epoch], None)
    began_s = unstolen_s()
    # Known while the record still runs: a stop whose time is over then commits these.
    one.wait(lambda: one.watermark() == first + 2)
    assert unstolen_s() - began_s < 10.0  # twice `batch_s` is when a slow record is looked for
    (one.directory / "gate").touch()
    one.wait(lambda: one.watermark() == first + 3)
    with one.hub.locked() as inboxes:
        assert inboxes.ending.is_drained([one.epoch])
    assert one.lines("start")[-1][0] == str(first + 2)


def test_batches_grow_by_doubling_and_shrink_at_once(crew: Any) -> None:
    """Slow handlers get one record at a time, from the first slow batch on."""
    fitting = crew(start=False).workers._fitting
    sizes = [1]
    while sizes[-1] < 256:
        sizes.append(fitting(sizes[-1], sizes[-1], sizes[-1] * 10e-6))
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert fitting(256, 256, 256 * 10e-6) == 256
    assert fitting(256, 256, 256 * 0.05) == 1
    assert fitting(256, 0, 1.0) == 256


def test_stacks_show_where_a_busy_child_is(crew: Any) -> None:
    """The stuck report names the child and the handler's line; what it reported earlier is not kept."""
    one = crew(2)
    one.receive("wait")
    one.wait(lambda: one.lines("start"))

    for _ in range(5):
        [(name, stack)] = one.workers.stacks().items()

    assert stack.count("Current thread") <= 1
    assert name.startswith("ehkafka-crew-")
    assert "process_handlers.py" in stack
    assert f"in the child {one.lines('start')[0][2]}" in stack


def test_hooks_and_middleware_run_in_each_child(crew: Any, handlers: Any) -> None:
    """on_worker_start before its first record, on_worker_stop after the last, middleware around each."""
    one = crew(2, set_up=handlers.set_up, tear_down=handlers.tear_down, middleware=(handlers.middleware,))
    pids = {str(pid) for pid in one.workers.pids}
    one.receive("x")
    one.finish_all()
    assert one.workers.stop(10.0) == []

    assert {pid for (pid,) in one.lines("up")} == {pid for (pid,) in one.lines("down")} == pids
    assert one.lines("around")[0][1] in pids


def test_a_pool_grows_and_shrinks_while_it_runs(crew: Any) -> None:
    """After a shrink no more handlers run at once than there are workers; no child is left over."""
    one = crew(1)
    one.workers.resize(3)
    assert len(set(one.workers.pids)) == one.workers.size == 3
    before = set(one.workers.pids)
    one.workers.resize(1)
    left = set(one.workers.pids)
    one.wait(lambda: not [pid for pid in before - left if Path(f"/proc/{pid}").exists()])
    one.receive(*["sleep 0.02"] * 5)
    one.finish_all()

    assert {int(pid) for _, _, pid in one.lines("end")} == left


def test_a_rate_limit_holds_over_all_children(crew: Any) -> None:
    """Batches get no more records than there are tokens; a child without any sleeps until there is one."""
    one = crew(2, pace=Pace(50.0, time.monotonic))
    began_s = time.monotonic()
    one.receive(*["x"] * 20)
    one.finish_all()
    assert time.monotonic() - began_s >= (20 - 5) / 50.0
    assert one.workers.stop(10.0) == []


def test_a_record_cannot_be_deferred(crew: Any) -> None:
    """The token would stay in the child: refused there, which fails the attempt."""
    one = crew()
    one.receive("defer")
    one.wait(lambda: one.failures)

    assert "cannot be deferred in a worker process" in str(one.failures[0][1])


@pytest.mark.parametrize("what", ["lambda", "closure", "object"])
def test_what_cannot_be_pickled_is_refused_before_anything_starts(what: str) -> None:
    """The message names it and says what to do."""
    lock = threading.Lock()
    thing = {"lambda": lambda record: record, "closure": in_another(lock), "object": lock}[what]
    with pytest.raises(ConfigurationError, match=r"handler 'x'.*cannot be pickled for processes.*workers=16"):
        ProcessWorkers(
            Hub(Inboxes(1), time.monotonic),
            Processes(1),
            options=PoolOptions(name="x", size=1, on_failure=print, on_death=print),  # type: ignore[arg-type]
            call=None,
            parts={"handler 'x'": thing},
            **dict.fromkeys(("on_stop", "emit"), print),
        )


def in_another(lock: Any) -> Callable[[], Any]:
    """Return a closure."""
    return lambda: lock


@pytest.mark.parametrize(
    ("here", "set_up", "reported"),
    [
        ([], None, 0),
        ([logging.StreamHandler()], None, 1),
        ([logging.StreamHandler()], "set_up_logging", 0),
    ],
    ids=["nowhere", "here alone", "in both"],
)
def test_logging_that_is_set_up_here_but_not_in_the_children_is_reported_once(
    crew: Any, handlers: Any, monkeypatch: pytest.MonkeyPatch, here: Any, set_up: str | None, reported: int
) -> None:
    """What handlers log at INFO would vanish there; on_worker_start is where it can be set up."""
    monkeypatch.setattr(logging.getLogger(), "handlers", here)
    monkeypatch.setattr(logging.Logger, "manager", logging.Manager(logging.getLogger()))  # type: ignore[arg-type]
    one = crew(2, set_up=None if set_up is None else getattr(handlers, set_up))
    one.receive("x")
    one.finish_all()
    assert [event.worker for event in one.events if isinstance(event, WorkersLogNothing)] == [
        "ehkafka-crew"
    ] * reported
