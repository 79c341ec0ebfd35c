"""A record that does not move delays its key alone, at a cost that is paid once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.routing import Router
from tests.kit.inbox_bench import Call, InboxBench

if TYPE_CHECKING:
    import pytest


def busy_bench() -> tuple[InboxBench, Call, Call]:
    """Return a bench of two busy consumers, of which the first hangs with its key and another behind it."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    hanging, moving = bench.call("a"), bench.call("b")
    bench.receive(epoch, "a2 c3 d4")
    for inbox in (hanging.inbox, moving.inbox):
        for entry in inbox.take_back():
            bench.inboxes.router.put(hanging.inbox, entry)
    bench.inboxes.check(0.0)
    return bench, hanging, moving


def move_on(bench: InboxBench, moving: Call, now_s: float) -> Call:
    """Let the other consumer handle records of one key after another, and check after each."""
    epoch = next(iter(bench.inboxes.router.epochs.values()))
    bench.finish(moving)
    offset = epoch.received.next_offset
    bench.receive(epoch, f"b{offset}")
    moving = bench.call()
    bench.receive(epoch, f"b{offset + 1}")
    bench.check(now_s)
    return moving


def test_a_busy_consumer_takes_over_what_waits_behind_a_record_that_hangs() -> None:
    """Even where no consumer is ever free: else other keys would wait for as long as the load lasts."""
    bench, hanging, moving = busy_bench()
    for tenth in range(1, 40):
        moving = move_on(bench, moving, tenth / 10)
    assert [entry[0].offset() for entry in hanging.inbox.q] == [2]
    assert {"c3", "d4"} <= set(bench.started)


def test_what_waits_behind_its_own_key_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging key may have tens of thousands of records behind it."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    bench.receive(epoch, "a0")
    hanging = bench.call()
    bench.receive(epoch, " ".join(f"a{offset}" for offset in range(1, 50)))
    looks: list[Any] = []
    unload = Router.unload
    monkeypatch.setattr(Router, "unload", lambda *them, **how: looks.append(them) or unload(*them, **how))
    for hundredth in range(100):
        bench.check(hundredth / 100)
    assert len(looks) <= 2  # before it counts as hanging, and after
    assert len(hanging.inbox.q) == 49
