"""How many batch workers get records."""

from __future__ import annotations

from ehkafka.lanes.width import TRIAL_S, Width
from tests.workers.batches.batch_bench import BatchBench

QUICK = (500, 5e-4, 5e-4)
WAITS = (500, 5e-3, 1e-4)
COMPUTES = (500, 5e-2, 5e-2)


def after(*calls: tuple[int, float, float], now_s: float = 1.0) -> int | None:
    """Return how many get records after such calls."""
    width = Width(1, is_measured=True)
    for call in calls:
        width.note_call(*call)
    width.note(now_s, 0.0, None, None)
    return width.consumers


def test_quick_calls_are_for_one_worker_and_others_for_all() -> None:
    """Quick is what takes little time for a record, and waits for nothing in it."""
    assert after() == 1
    assert after(QUICK) == 1
    assert after(WAITS) is None
    assert after(COMPUTES) is None


def test_one_call_that_the_system_held_up_changes_nothing() -> None:
    """Several in a row do."""
    held_up = (500, 0.2, 5e-4)
    assert after(QUICK, held_up) == 1
    assert after(QUICK, *[held_up] * 5) is None


def test_a_handler_that_becomes_quick_has_one_worker_again() -> None:
    """Not at once after a call that stood still: the next one may, too."""
    width = Width(1, is_measured=True)
    width.note_call(*QUICK)
    width.widen(5.0)
    width.note(5.0 + TRIAL_S / 2, 0.0, None, None)
    assert width.consumers is None
    width.note(5.0 + TRIAL_S, 0.0, None, None)
    assert width.consumers == 1


def test_batches_that_fill_in_several_inboxes_become_one() -> None:
    """In the inbox whose first record is the oldest, so that none waits longer than it may."""
    bench = BatchBench(consumers=3, records_max=4, wait_s=1.0)
    bench.slow()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3")
    busy = next(inbox for inbox in bench.inboxes.inboxes if inbox.q)
    bench.inboxes.take(busy, 4)
    bench.receive(epoch, "a4")  # behind what runs of its key
    for now_s in (0.01, 0.5):
        bench.check(now_s)  # its call takes long
    bench.receive(epoch, "e5 f6")
    assert sorted(len(inbox.q) for inbox in bench.inboxes.inboxes) == [0, 1, 2]
    bench.inboxes.end_batch(busy)
    bench.check(0.51)
    assert [len(inbox.q) for inbox in bench.inboxes.inboxes if inbox is not busy] == [0, 0]
    bench.now_s = 1.1
    assert bench.run(busy.number) == ["a4", "e5", "f6"]


def test_what_waits_elsewhere_comes_to_the_one_worker() -> None:
    """Quick batches do not fill in inboxes that get nothing new."""
    bench = BatchBench(consumers=3, records_max=4, wait_s=1.0)
    bench.slow()
    epoch = bench.assign()
    first, other = bench.inboxes.inboxes[0], bench.inboxes.inboxes[2]
    bench.receive(epoch, "a0 b1")
    bench.inboxes.router.unload(first, [other])
    assert len(other.q) == 2
    for _ in range(20):
        bench.workers._width.note_call(*QUICK)
    bench.check(1.0)
    bench.check(1.01)
    assert [len(inbox.q) for inbox in bench.inboxes.inboxes] == [2, 0, 0]
