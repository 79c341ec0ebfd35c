"""Races between real threads on the exchange and the lanes, and mutants that show each guard is needed.

No broker: the test plays the poll thread. Threads are switched as often as the interpreter can.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.cuts import Cuts
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.lane import Lane
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0

pytestmark = pytest.mark.usefixtures("switch_often")


# --- lanes that are freed and born again ------------------------------------------------------------


def reborn(pool: Any, births: int, for_s: float) -> str | None:
    """Let lanes be freed and born again so often or so long; return what went wrong, None if nothing did."""
    rng = random.Random(3)
    assignment = pool.assign()
    keys = [b"k%d" % n for n in range(200)]
    offset = born = 0
    quiet_s = time.monotonic()
    seen = -1
    ends_s = quiet_s + for_s
    while (feeds := born < births and time.monotonic() < ends_s) or pool.handled < offset:
        with pool.exchange.locked():
            # Mostly keys without a lane, sometimes one whose lane may be on its way out.
            wanted = [key for key in keys if key not in assignment.lanes or rng.random() < 0.1]
            now_born = sum(key not in assignment.lanes for key in wanted)
        if wanted and feeds and offset - pool.handled < 500:
            pool.receive(assignment, offset, wanted)
            offset += len(wanted)
            born += now_born
        pool.exchange.watch()
        if pool.wrong:
            return str(pool.wrong[0])
        if pool.handled != seen:
            seen, quiet_s = pool.handled, time.monotonic()
        if time.monotonic() - quiet_s > 1.0:
            return f"{offset - pool.handled} of {offset} records were never handled"
    with pool.exchange.locked():
        assert not assignment.lanes
        assert assignment.watermark() == offset
    assert born > births // 10
    return None


def test_a_lane_that_is_freed_and_born_again_loses_and_overlaps_nothing(pool: Callable[..., Any]) -> None:
    """200 keys, 8 workers, 100 000 births: every record once, in order, one at a time per key."""
    assert reborn(pool(8), 100_000, for_s=7.0) is None


def lost_behind_an_emptied_lane() -> bool:
    """Append a record after its lane's last outcome and before the hand-in; tell whether it is lost."""
    dispatcher = Dispatcher()
    assignment = dispatcher.assign(PARTITION, 1)
    dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"a")], [b"a"], 0.0)
    lane = dispatcher.begin()
    assert lane is not None
    assert not lane.advance()
    dispatcher.receive(assignment, [SimulatedMessage("t", 0, 1, b"a")], [b"a"], 0.0)
    dispatcher.settle([lane], 0.0)
    again = dispatcher.begin()
    return again is None or again.head is None or again.head.offset() != 1


def test_mutant_a_lane_is_freed_with_records_behind_its_head(mutate: Callable[..., None]) -> None:
    """Freeing a lane although a record was appended meanwhile loses that record."""
    assert not lost_behind_an_emptied_lane()
    mutate(Dispatcher, "settle", "elif lane.head is None and not lane.rest:", "elif lane.head is None:")
    assert lost_behind_an_emptied_lane()


# --- outcomes against a revoke ----------------------------------------------------------------------


def revokes(pool: Any, epochs: int, seed: int = 5) -> str | None:
    """Drain and end epochs while workers hand in; return what went wrong, None if nothing did."""
    rng = random.Random(seed)
    keys = [b"k%d" % n for n in range(12)]
    position = 0
    for _ in range(epochs):
        assignment = pool.assign()
        epoch, first = assignment.epoch, position
        for _ in range(rng.randrange(1, 4)):
            count = rng.randrange(1, 60)
            pool.receive(assignment, first, [rng.choice(keys) for _ in range(count)])
            first += count
            pool.exchange.watch()
            for _ in range(rng.randrange(200)):
                pass
        with pool.exchange.locked() as dispatcher:
            dispatcher.drain(assignment, below_started=True)
            limit = assignment.drain_limit
        patient = rng.random() < 0.7
        ends_s = time.monotonic() + (5.0 if patient else 0.0005)
        while time.monotonic() < ends_s:
            pool.exchange.watch()
            with pool.exchange.locked() as dispatcher:
                if dispatcher.drained(assignment):
                    break
        else:
            if patient:
                return "a drain did not end"
        with pool.exchange.locked() as dispatcher:
            watermark = assignment.watermark()
            assert watermark is not None
            unfinished = set(range(position, watermark)) - pool.done[epoch]
            dispatcher.end(assignment)
        # A copy in one step: after an impatient end workers may still be at it.
        begun = frozenset(pool.started[epoch])
        above = {offset for offset in begun if offset > limit}
        if unfinished:
            return f"watermark {watermark} passes the unfinished {sorted(unfinished)[:5]}"
        if above:
            return f"{sorted(above)[:5]} started above the limit {limit}"
        started = max(begun, default=position - 1)
        if patient and watermark != started + 1:
            return f"the drain left a hole: started up to {started}, watermark {watermark}"
        if pool.wrong:
            return str(pool.wrong[0])
        position = watermark
    return None


@pytest.mark.parametrize("express", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_outcomes_handed_in_during_a_revoke_leave_no_hole_and_no_premature_watermark(
    pool: Callable[..., Any], seed: int, express: bool
) -> None:
    """700 revokes against 6 workers: nothing starts above the limit, nothing unfinished is passed."""
    assert revokes(pool(6, work=_spin, express=express), 700, seed) is None


def a_seed_is_red(pool: Callable[..., Any]) -> bool:
    """Tell whether revokes go wrong in any of several runs: on a busy machine threads may miss each other."""
    return any(revokes(pool(6, work=_spin), 700, seed) is not None for seed in range(10))


def _spin(lane: Lane) -> None:
    # Lets other threads in between the start of a handler and its end.
    for _ in range(lane.head.offset() % 7 * 10):  # type: ignore[union-attr]
        pass


def test_mutant_a_holder_does_not_say_that_it_runs(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """Without `running`, a revoke takes the head away under the handler."""
    mutate(Dispatcher, "begin", "lane.running = True", "pass")
    assert a_seed_is_red(pool)


def test_mutant_a_holder_does_not_look_whether_its_partition_is_halted(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """Without the look, records above the drain's limit start."""
    old = "(not self.assignment.halted or self.assignment.may_start(self.head))"
    mutate(Lane, "may_run_head", old, "True")
    assert a_seed_is_red(pool)


def test_mutant_a_drain_looks_for_runners_before_it_halts(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """A record that starts between the look and the halt is above the limit."""
    halt = "assignment.halted = True  # before the look at who runs: see `Assignment`\n"
    check = "assignment.drain_limit = assignment.highest_started(self._dispatcher.decisions.diverting)\n"
    mutate(Cuts, "drain", halt, "pass\n")
    mutate(Cuts, "drain", check, check + " " * 12 + "assignment.halted = True\n")
    assert a_seed_is_red(pool)


def test_mutant_the_watermark_ignores_what_waits_behind_an_emptied_lane(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """A record appended between a lane's last outcome and its hand-in would be committed past."""
    # Deterministic: the test itself holds the lane at that point.
    from ehkafka.lanes.assignment import Assignment  # noqa: PLC0415

    def watermark() -> int | None:
        dispatcher = Dispatcher()
        assignment = dispatcher.assign(PARTITION, 1)
        dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"a")], [b"a"], 0.0)
        lane = dispatcher.begin()
        assert lane is not None
        assert not lane.advance()
        dispatcher.receive(assignment, [SimulatedMessage("t", 0, 1, b"a")], [b"a"], 0.0)
        return assignment.watermark()

    assert watermark() == 1
    mutate(Assignment, "watermark", "else lane.rest[0] if lane.rest else None", "else None")
    assert watermark() == 2
