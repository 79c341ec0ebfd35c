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


def test_what_waits_of_a_hot_key_is_not_moved_and_put_back_at_every_look() -> None:
    """Its consumer moves, all others have nothing, and tens of thousands of its records wait."""
    bench = InboxBench(consumers=3)
    epoch = bench.assign()
    bench.receive(epoch, " ".join(f"a{offset}" for offset in range(2_000)))
    call = bench.call()
    bench.check(0.0)
    queue = call.inbox.q
    for millisecond in range(1, 200):
        bench.finish(call)
        call = bench.call()
        bench.check(millisecond / 1_000)
    assert call.inbox.q is queue
    bench.receive(epoch, "a2000 b2001 a2002")
    for entry in call.inbox.take_back():
        bench.inboxes.router.put(call.inbox, entry)
    bench.check(0.2)
    assert bench.call("b").inbox is not call.inbox


def test_a_single_record_goes_to_a_free_consumer_where_calls_are_long() -> None:
    """It would else wait for the end of a call of another key; short ones are not worth the move."""
    for mean_s, moves in ((0.02, True), (0.0001, False)):
        bench = InboxBench(consumers=2)
        epoch = bench.assign()
        bench.receive(epoch, "a0")
        busy = bench.call()
        (other,) = (inbox for inbox in bench.inboxes.inboxes if inbox is not busy.inbox)
        other.frozen = True  # so that the next record goes to the busy one
        bench.receive(epoch, "b1")
        bench.inboxes.router.put(busy.inbox, *busy.inbox.take_back() or other.take_back())
        other.frozen = False
        bench.inboxes.balance.mean_s = mean_s
        bench.check(0.001)
        assert bool(other.q) == moves


def test_the_mean_time_is_right_though_nothing_ends_between_most_looks() -> None:
    """Drains go by it: five consumers that take 20 ms each, looked at each 5 ms."""
    bench = InboxBench(consumers=5)
    epoch = bench.assign()
    bench.receive(epoch, " ".join(f"k{offset}" for offset in range(5)))
    offset = 5
    for look in range(1, 41):
        if look % 4 == 1:
            bench.receive(epoch, " ".join(f"{'abcde'[n]}{offset + n}" for n in range(5)))
            offset += 5
            calls = [call for _ in range(5) if (call := bench.begin()) is not None]
        bench.check(look * 0.005)
        if look % 4 == 0:
            for call in calls:
                bench.finish(call)
    assert 0.015 < bench.inboxes.balance.mean_s < 0.025


def test_a_call_of_minutes_does_not_let_later_ones_count_as_quick() -> None:
    """What waits behind a record that takes long goes elsewhere within 50 ms, whatever the mean."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    bench.inboxes.balance.mean_s = 60.0
    bench.receive(epoch, "a0")
    call = bench.call()
    bench.check(0.0)
    bench.check(0.06)
    assert call.inbox.stuck
