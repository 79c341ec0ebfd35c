"""A call that outlives its epoch keeps its key until it ends, or until a command lets the key continue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from tests.kit.inbox_bench import Call, InboxBench

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch


def left_over(scope: Any = "partition", workers: int = 4) -> tuple[InboxBench, Call, Epoch]:
    """Return a bench whose call of `a0` hangs; its partition was revoked, came back, and has `a0 a1 b2`."""
    bench = InboxBench(scope, consumers=workers)
    first = bench.assign()
    bench.receive(first, "a0 a1 b2")
    hanging = bench.call("a")
    bench.inboxes.ending.end([first])
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2")
    return bench, hanging, epoch


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_its_key_waits_and_others_do_not(scope: str) -> None:
    """And it is known for which call: offset and epoch."""
    bench, hanging, epoch = left_over(scope)
    bench.work()
    assert bench.started == ["a0", "b2"]
    [left] = bench.inboxes.outliving.calls()
    assert (left[MESSAGE].offset(), left[EPOCH].number) == (0, 1)
    bench.finish(hanging)
    bench.work()
    assert bench.started[2:] == ["a0", "a1"]
    assert bench.inboxes.outliving.calls() == []
    assert epoch.watermark() == 3


def test_what_is_freed_does_not_wait_behind_that_call_again() -> None:
    """Neither where the one free worker is the call's own, nor when the partition goes and comes back."""
    bench, hanging, epoch = left_over(workers=2)
    [other] = [Call(inbox) for inbox in bench.inboxes.inboxes if inbox is not hanging.inbox]
    other.start()
    bench.inboxes.outliving.free_key(b"a", epoch)
    for now_s in (0.0, 1.0):
        bench.inboxes.check(now_s)
    bench.finish(other, 10)
    bench.inboxes.check(2.0)
    bench.work()
    assert bench.started[-2:] == ["a0", "a1"]
    epoch.owners.clear()  # all are done; so do purges
    bench.inboxes.ending.end([epoch])
    again = bench.assign()
    bench.receive(again, "a3")
    bench.work()
    assert bench.started[-1] == "a3"


def test_a_key_that_is_paused_stays_so() -> None:
    """The command ends the wait for the call alone."""
    bench, _, epoch = left_over()
    bench.waiting.pause_key(b"a", epoch)
    assert bench.inboxes.outliving.free_key(b"a", epoch) is not None
    bench.work()
    assert bench.started == ["a0", "b2"]
    bench.waiting.resume_key(b"a", epoch)
    bench.work()
    assert bench.started[2:] == ["a0", "a1"]


def test_a_handler_that_is_stopped_stays_so() -> None:
    """Likewise."""
    bench, _, epoch = left_over()
    bench.router.piles.stop()
    assert bench.inboxes.outliving.free_key(b"a", epoch) is not None
    bench.work()
    assert bench.started == ["a0"]
    bench.router.piles.resume()
    bench.work()
    assert sorted(bench.started[1:]) == ["a0", "a1", "b2"]


def test_a_call_of_this_epoch_is_none() -> None:
    """Nor is one that waits, whatever for."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2")
    bench.call("a")
    bench.fail(bench.call("b"), HoldHead("held"))
    for key in (b"a", b"b", b"c"):
        assert bench.inboxes.outliving.free_key(key, epoch) is None
    assert bench.inboxes.outliving.calls() == []
