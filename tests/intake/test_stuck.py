"""What a stuck report names: what runs, what is awaited, and calls that outlive their assignment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ehkafka.events import StuckReport
from ehkafka.intake.stuck import StuckWatch, outliving_calls, running_records
from ehkafka.lanes.decision import AwaitHead
from ehkafka.workers.hub import Hub
from tests.kit.inbox_bench import InboxBench


def _route(bench: InboxBench) -> Any:
    hub = Hub(bench.inboxes, lambda: bench.now_s)
    workers = SimpleNamespace(stacks=dict)
    return SimpleNamespace(name="h", hub=hub, workers=workers, attempts=None)


def test_what_runs_and_what_is_awaited_is_named() -> None:
    """Not what waits behind it, nor another partition's."""
    bench = InboxBench()
    epoch, other = bench.assign(0), bench.assign(1)
    bench.receive(epoch, "a0 b1 a2 c3")
    bench.receive(other, "d0")
    bench.call("a")
    bench.call("d")
    bench.fail(bench.call("b"), AwaitHead("its answer is awaited", lambda _ticket: None))
    assert sorted(running_records([(_route(bench), epoch)])) == [
        "t[0]@0 key a",
        "t[0]@1 key b (its answer is awaited)",
    ]


def test_a_call_that_outlives_its_assignment_is_named_with_its_epoch() -> None:
    """Its key's next records wait for it, so it is why nothing ends."""
    bench = InboxBench()
    first = bench.assign()
    bench.receive(first, "a0 b1")
    bench.call("a")
    bench.inboxes.ending.end([first])
    second = bench.assign()
    bench.receive(second, "a0")
    route, reported = _route(bench), list[Any]()
    bench.now_s = 30.0
    assert list(outliving_calls([route], bench.now_s)) == ["t[0]@0 key a, epoch 1, received 30 s ago"]
    watch = StuckWatch([route], 60.0, lambda: [(route, second)], reported.append, 0.0)
    watch.check(30.0)
    assert not reported
    watch.check(61.0)
    watch.check(62.0)
    (report,) = reported
    assert isinstance(report, StuckReport)
    assert len(report.running) == 1
    assert report.running[0].startswith("t[0]@0 key a, epoch 1, ")
