"""What an app shows: snapshots, health, counters, events and log lines that name where."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import threading
from typing import TYPE_CHECKING, Any, Self

import pytest

import ehkafka
from ehkafka.events import AppStarted, AppStopped, AppStopping, PartitionAssigned, PartitionRevoked
from tests.kit.inside import inside
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


def test_a_snapshot_is_immutable_and_taken_from_any_state(lab: Any, recorder: Any) -> None:
    """Before the start, while running, after the stop: state and health say which."""
    app = lab.app(recorder)
    assert (app.snapshot().state, app.health().reasons) == ("new", ("The app is new.",))
    app.start()
    wait_until(lambda: app.snapshot().partitions)
    snapshot = app.snapshot()
    assert (snapshot.state, snapshot.group) == ("running", "g")
    with pytest.raises(dataclasses.FrozenInstanceError):
        snapshot.state = "stopped"
    snapshot.counters["AppStarted"] = 7  # a copy of its own
    assert app.snapshot().counters["AppStarted"] == 1
    assert app.health()
    app.stop()
    assert app.snapshot().state == "stopped"
    assert app.health().reasons == ("The app is stopped.",)


def test_events_tell_a_life_in_order_and_counters_agree(lab: Any, recorder: Any, events: Any) -> None:
    """Started, assigned, stopping, given back with what was committed, stopped with its exit code."""
    lab.produce("a b c")
    app = lab.start(recorder)
    wait_until(lambda: lab.committed() == 3)
    app.stop()
    life = [AppStarted, PartitionAssigned, AppStopping, PartitionRevoked, AppStopped]
    assert [type(event) for event in events if type(event) in life] == life
    (revoked,) = events.of(PartitionRevoked)
    assert (revoked.next_offset, revoked.returned_records, revoked.reason) == (3, 0, "stopped")
    assert events.of(AppStopped)[0].exit_code == 0
    counters = app.snapshot().counters
    assert [counters[kind.__name__] for kind in life] == [1] * 5


class Steps:
    """Counts what the interpreter does on this thread: a measure of work that no busy machine changes."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._begin)
        return self

    def __exit__(self, *_exception: object) -> None:
        sys.settrace(self._before)

    def _begin(self, frame: FrameType, _event: str, _argument: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self.count += event == "opcode"
        return self._step


# In Python 3.11 looks took 1,270,000 and 700,000 steps, their longest holds of a lock 154,000 and 29,000.
@pytest.mark.parametrize(
    ("workers", "keys", "steps_max", "hold_max"),
    [
        pytest.param(5_000, 5_000, 1_800_000, 230_000, id="running"),
        pytest.param(8, 1_000, 1_000_000, 45_000, id="waiting"),
    ],
)
def test_a_snapshot_of_many_partitions_holds_no_handler_up(
    embedded_broker_factory: Any, workers: int, keys: int, steps_max: int, hold_max: int
) -> None:
    """Of 500 partitions with thousands of keys: the steps of a look and of its longest hold of a lock."""
    done = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def handle(_record: Any) -> None:
        loops.append(asyncio.get_running_loop())
        await done.wait()

    broker = embedded_broker_factory({"many": 500})
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    app.handler("many", workers=workers)(handle)
    for partition in range(500):
        broker.produce("many", [(f"k{number}".encode(), b"x") for number in range(10)], partition=partition)
    try:
        app.start()
        wait_until(lambda: app.snapshot().lanes >= keys)
        wait_until(lambda: sum(one.in_flight_records for one in app.snapshot().partitions) == workers)
        (route,) = inside(app).routes
        # Others hold it, too, while this thread goes on.
        holds, ours = [], threading.current_thread()
        locked = route.hub.locked

        @contextlib.contextmanager
        def counted(**options: Any) -> Iterator[Any]:
            with locked(**options) as inboxes:
                before = steps.count
                yield inboxes
                if threading.current_thread() is ours:
                    holds.append(steps.count - before)

        route.hub.locked = counted
        with Steps() as steps:
            snapshot = app.snapshot()
        assert len(snapshot.partitions) == 500
        assert 0 < max(holds) < hold_max
        assert steps.count < steps_max
    finally:
        # Each call ends: thousands that hang would be cancelled one by one, for longer than a stop waits.
        loops[0].call_soon_threadsafe(done.set)
        app.stop()
