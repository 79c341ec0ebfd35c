"""How records wake the loop, and that none is left lying while it falls asleep."""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ehkafka.workers.exchange import Exchange
from ehkafka.workers.tasks.tasks import LoopGate
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


from tests.workers.tasks.conftest import LIMIT_S, PARTITION, Pool


def trickle(pool: Pool, records: int, *, waits_s: float) -> str | None:
    """Hand over single records at random moments, each with one wake and no watch; say what was left."""
    rng = random.Random(7)
    assignment = pool.assign()
    for offset in range(records):
        pool.receive(assignment, offset, [b"k%d" % rng.randrange(3)])
        for _ in range(rng.randrange(40)):
            pass
        if rng.random() < 0.02:
            ends_s = time.monotonic() + waits_s
            while len(pool.ended) <= offset:
                if time.monotonic() > ends_s:
                    return f"{offset + 1 - len(pool.ended)} records lie for {waits_s} s under an idle loop"
                time.sleep(0)
    ends_s = time.monotonic() + waits_s
    while len(pool.ended) < records:
        if time.monotonic() > ends_s:
            return f"{records - len(pool.ended)} records were left lying"
        time.sleep(0)
    return None


def test_a_record_that_finds_the_loop_falling_asleep_is_handled_without_a_watch(
    pool: Callable[..., Pool],
) -> None:
    """100 000 single records to a loop that falls asleep again and again: one wake each is enough."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert trickle(pool(4), 100_000, waits_s=5.0) is None
    finally:
        sys.setswitchinterval(before_s)


class ComesBeforeTheGate:
    """Mixed into an exchange: a record comes after the loop's last look and before its gate is out."""

    has_come = False
    locked: Any
    wake_one: Any

    def publish(self, gate: Any) -> bool:
        """Let the record come first."""
        if not self.has_come:
            self.has_come = True
            with self.locked() as dispatcher:
                assignment = dispatcher.assign(PARTITION, 1)
                dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"late")], [b"late"], 0.0)
            self.wake_one()
        return super().publish(gate)  # type: ignore[misc, no-any-return]


def is_left_lying(pool: Pool) -> bool:
    """Tell whether a record that came while the loop fell asleep lies there."""
    ends_s = time.monotonic() + 1.0
    while not pool.ended and time.monotonic() < ends_s:
        time.sleep(1e-3)
    return not pool.ended


def test_a_record_that_comes_before_the_gate_is_out_is_seen_by_the_loop_itself(
    pool: Callable[..., Pool],
) -> None:
    """Whoever brought it found nobody to wake."""
    assert not is_left_lying(pool(4, mixed_in=(ComesBeforeTheGate,)))


def test_mutant_a_loop_falls_asleep_without_a_second_look(
    pool: Callable[..., Pool], mutate: Callable[..., None]
) -> None:
    """Without the look after publishing the gate, the record is left lying."""
    old = "if self.closed or (ready and not left_to_quick_worker):"
    mutate(Exchange, "publish", old, "if self.closed:")
    made = pool(4, mixed_in=(ComesBeforeTheGate,))
    assert is_left_lying(made)
    made.exchange.watch()
    made.wait(lambda: made.ended)


def test_there_is_never_more_than_one_wake_up_on_its_way(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that was released is not out again before the loop has woken: 500 records, one call."""
    calls: list[int] = []
    release = LoopGate.release
    monkeypatch.setattr(LoopGate, "release", lambda gate: (calls.append(1), release(gate)))
    holds, held = threading.Event(), threading.Event()

    def hold() -> None:
        holds.set()
        assert held.wait(LIMIT_S)

    made = pool(4)
    assignment = made.assign()
    made.wait(lambda: made.exchange._idle_gates)
    for _ in range(3):  # lets the loop look for work again, and find none
        made.workers.resize(4)
    assert made.workers._loop is not None
    made.workers._loop.call_soon_threadsafe(hold)
    assert holds.wait(LIMIT_S)
    for offset in range(500):
        made.receive(assignment, offset, [b"k%d" % offset])
    assert len(calls) == 1
    held.set()
    made.wait(lambda: len(made.ended) == 500)
