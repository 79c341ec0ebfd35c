"""No look for a commit finds a record finished whose outputs are not put, whatever runs it.

A record leaves its worker's queue before its call, and that it is finished is read from there: so all that it
has sent must be put before its worker shows the next record.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.sender import OutputSender
from ehkafka.records.deferral import engines_own
from tests.contract import output_handlers as handlers
from tests.kit.inside import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = 600
KEYS = 12


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let nothing be sent until this is set; let threads take turns often."""
    gate = threading.Event()
    hand_over = OutputSender._hand_over
    monkeypatch.setattr(OutputSender, "_hand_over", lambda self: hand_over(self) if gate.is_set() else None)
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield gate
    gate.set()
    sys.setswitchinterval(before_s)


def several(record: Any) -> list[str]:
    """Send one at once, and two with the return."""
    record.send("0")
    return ["1", "2"]


async def several_async(record: Any) -> list[str]:
    """Do it in a task."""
    return several(record)


def deferring(record: Any) -> None:
    """Send from another thread, which then answers."""
    token = record.defer()

    def end() -> None:
        record.send("0")
        token.finish()

    threading.Thread(target=end).start()


def each_of_batch(batch: Any) -> None:
    """Send for each record."""
    for record in batch:
        record.send("0")


def one_of_batch(batch: Any) -> ehkafka.Send:
    """Send one for all."""
    return ehkafka.Send(str(len(batch)), key=b"all")


async def one_of_batch_async(batch: Any) -> ehkafka.Send:
    """Do it in a task."""
    return one_of_batch(batch)


PROCESSES = {"workers": ehkafka.Processes(2)}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (handlers.plain, {}),
    "threads, several": (several, {}),
    "threads, deferring": (deferring, {}),
    "class": (handlers.Instance, {}),
    "tasks": (handlers.plain_async, {}),
    "tasks, several": (several_async, {}),
    "batches, each": (each_of_batch, {"batch_records_max": 20, "wait_s_max": 0.01}),
    "batches, one": (one_of_batch, {"batch_records_max": 20, "wait_s_max": 0.01}),
    "batches, tasks": (one_of_batch_async, {"batch_records_max": 20, "wait_s_max": 0.01}),
    "batches, workers": (each_of_batch, {"batch_records_max": 20, "wait_s_max": 0.01, "workers": 4}),
    "processes": (handlers.plain, PROCESSES),
    "slow processes": (handlers.slow, PROCESSES),
}


def started(lab: Any, kind: str) -> Any:
    """Return an app of a kind that has begun with all records."""
    lab.broker.create_topic("out", 1)
    lab.broker.produce("t", [(b"k%d" % (n % KEYS), b"%d" % n) for n in range(RECORDS)], partition=0)
    handler, options = KINDS[kind]
    app = lab.app(None)
    register = app.batch_handler if "batches" in kind else app.handler
    register("t", to="out", **options)(handler)
    app.start()
    return app


def unsent(app: Any) -> set[int]:
    """Look as the commit tick does until all is finished; return what was found finished too early."""
    (route,) = inside(app).routes
    outputs = inside(app).context.delivery.outputs
    ends_s = time.monotonic() + 30.0
    early: set[int] = set()
    finished: set[int] = set()
    while len(finished) < RECORDS and time.monotonic() < ends_s:
        with route.hub.locked() as inboxes:
            epochs = list(inboxes.router.epochs.values())
            for epoch in epochs:
                unfinished = {entry[0].offset() for entry in epoch.unfinished()}
                finished = set(range(epoch.received.next_offset or 0)) - unfinished
                early |= finished - outputs.waiting().get(epoch, set())
        time.sleep(0.0)
    assert len(finished) == RECORDS
    return early


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_put_before_their_record_is_finished(lab: Any, gate: threading.Event, kind: str) -> None:
    """Each look finds for each finished record what it has sent."""
    app = started(lab, kind)
    assert unsent(app) == set()
    assert lab.committed() in (None, 0)
    gate.set()
    app.stop()
    assert lab.committed() == RECORDS


def test_the_look_finds_outputs_that_come_late(
    lab: Any, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a call returns before its output is put, the same look tells."""
    late: list[threading.Thread] = []

    def take(self: Any, record: Any, result: Any) -> None:
        message = engines_own(record)
        (entry,) = self.call_of(message).entries
        (made,) = self.maker.made(message, result)
        flat = (self, entry, *made[:5])
        late.append(threading.Timer(0.002, self.outputs.put, (entry, flat, made[5])))
        late[-1].start()

    monkeypatch.setattr(Outlet, "take", take)
    app = started(lab, "class")
    assert unsent(app)
    for thread in late:
        thread.join()
    gate.set()
    app.stop()
