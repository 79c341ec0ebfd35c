"""Seeds of the simulator: every promise of the contract under random schedules and faults.

`scripts/simulate` runs more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.express import Express
from ehkafka.lanes.slices import Slices
from ehkafka.lanes.streams import Streams
from ehkafka.workers.batches.plan import BatchPlan
from tests.kit.simulated.plan import SimulationPlan
from tests.kit.simulated.simulator import Simulation, SimulationReport, simulate

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane
    from ehkafka.workers.batches.share import Share

SEEDS = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS", "120"))
SEEDS_WITH_CHUNKS = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS_WITH_CHUNKS", "40"))
SEEDS_WITH_BATCHES = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS_WITH_BATCHES", "300"))
SEEDS_WITH_LATE_LANES = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS_WITH_LATE_LANES", "300"))
SEEDS_WITH_STREAMS = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS_WITH_STREAMS", "300"))
SEEDS_WITH_TRANSACTIONS = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS_WITH_TRANSACTIONS", "300"))
AT_ONCE = 20


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_seed_breaks_a_promise(first: int) -> None:
    """Lost, premature, order, stale and unseen are 0; no duplicate without a fault."""
    for seed in range(first, min(first + AT_ONCE, SEEDS)):
        report = simulate(seed)
        assert report.ok, report.report()


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_CHUNKS, AT_ONCE))
def test_no_seed_with_chunks_breaks_a_promise(first: int) -> None:
    """Chunks ended early, failures in them, lanes and chunks in turns, revokes; the next seeds."""
    for seed in range(SEEDS + first, SEEDS + min(first + AT_ONCE, SEEDS_WITH_CHUNKS)):
        plan = SimulationPlan.drawn_with_chunks(seed)
        report = simulate(seed, plan=plan)
        assert report.ok, report.report()


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_BATCHES, AT_ONCE))
def test_no_seed_with_batches_breaks_a_promise(first: int) -> None:
    """Batches of chunks: whole, separated, halved, long ones, revokes; the next seeds."""
    begin = SEEDS + SEEDS_WITH_CHUNKS
    for seed in range(begin + first, begin + min(first + AT_ONCE, SEEDS_WITH_BATCHES)):
        report = simulate(seed, plan=SimulationPlan.drawn_with_batches(seed))
        assert report.ok, report.report()


def test_the_seeds_with_batches_see_what_they_are_meant_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches end whole, are separated and get lanes while they run, with records behind them and without."""
    seen: Counter[str] = Counter()
    settle, end_early, separate = Slices.settle, Slices.end_early, BatchPlan.separate

    def count_settled(slices: Slices, returned: Iterable[Any]) -> list[Lane]:
        returned = list(returned)
        seen["whole"] += sum(isinstance(one, Chunk) and one.is_out for one in returned)
        seen["whole with lanes"] += sum(isinstance(one, Chunk) and bool(one.lanes) for one in returned)
        return settle(slices, returned)

    def count_ended(slices: Slices, chunk: Chunk) -> Lane | None:
        seen["given lanes"] += chunk.is_out
        seen["given lanes with some behind"] += chunk.is_out and chunk.assignment in slices.blocked
        return end_early(slices, chunk)

    def count_separated(plan: BatchPlan, parts: Iterable[Any]) -> list[Share]:
        parts = list(parts)
        seen["separated"] += any(isinstance(part, Chunk) for part in parts)
        return separate(plan, parts)

    monkeypatch.setattr(Slices, "settle", count_settled)
    monkeypatch.setattr(Slices, "end_early", count_ended)
    monkeypatch.setattr(BatchPlan, "separate", count_separated)
    for seed in range(12):
        assert simulate(seed, plan=SimulationPlan.drawn_with_batches(seed)).ok
    assert len(seen) == 5, seen
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_LATE_LANES, AT_ONCE))
def test_no_seed_with_late_lanes_breaks_a_promise(first: int) -> None:
    """The same where records get their lanes as workers take them."""
    for seed in range(first, min(first + AT_ONCE, SEEDS_WITH_LATE_LANES)):
        report = simulate(seed, plan=SimulationPlan.drawn_with_late_lanes(seed))
        assert report.ok, report.report()


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_STREAMS, 5 * AT_ONCE))
def test_no_seed_with_streams_breaks_a_promise(first: int) -> None:
    """Streams side by side, ended early or whole; keys that come up again while one has them."""
    for seed in range(first, min(first + 5 * AT_ONCE, SEEDS_WITH_STREAMS)):
        report = simulate(seed, plan=SimulationPlan.drawn_with_streams(seed))
        assert report.ok, report.report()


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_TRANSACTIONS, AT_ONCE))
def test_no_seed_with_transactions_breaks_a_promise(first: int) -> None:
    """Each record's outputs are visible once, in order, and just when its commit is."""
    for seed in range(first, min(first + AT_ONCE, SEEDS_WITH_TRANSACTIONS)):
        report = simulate(seed, plan=SimulationPlan.drawn_with_transactions(seed))
        assert report.ok, report.report()


@pytest.mark.parametrize("first", range(0, SEEDS_WITH_TRANSACTIONS // 3, AT_ONCE))
def test_no_seed_with_short_texts_breaks_a_promise(first: int) -> None:
    """The same where commits cannot say all that is finished above them."""
    for seed in range(first, min(first + AT_ONCE, SEEDS_WITH_TRANSACTIONS // 3)):
        report = simulate(seed, plan=SimulationPlan.drawn_with_short_texts(seed))
        assert report.ok, report.report()


def test_the_seeds_with_transactions_see_what_they_are_meant_to_see() -> None:
    """Transactions end in every way, by every side, and outputs are refused meanwhile."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        simulation = Simulation(SimulationPlan.drawn_with_transactions(seed))
        assert simulation.run().ok
        seen += simulation.transactions.seen
    often = (
        "acknowledged",
        "aborted: asked",
        "aborted: init",
        "aborted: timed out",
        "fenced by the group",
        "read back",
        "refused",
        "waited for stable offsets",
    )
    assert min(seen[what] for what in often) > 20, seen
    assert min(seen[what] for what in ("taken back", "not waited for", "producers on trial")) > 0, seen


def test_a_seed_replays_exactly() -> None:
    """The command that a failing seed prints shows the same run."""
    assert _outline(simulate(3, trace=True)) == _outline(simulate(3, trace=True))


def test_a_seed_with_transactions_replays_exactly() -> None:
    """Threads make no difference: one runs at a time."""
    first, second = (
        simulate(2, plan=SimulationPlan.drawn_with_transactions(2), trace=True) for _ in range(2)
    )
    # Events say how long something has taken; that, too, is of the virtual clock.
    assert _outline(first) == _outline(second)


def test_the_seeds_see_what_they_are_meant_to_see() -> None:
    """A simulation in which nothing happens proves nothing."""
    reports = [simulate(seed) for seed in range(15)]
    verdicts = [report.verdict for report in reports]
    assert {report.plan.scope for report in reports} == {"partition", "handler"}
    assert {report.plan.cooperative for report in reports} == {True, False}
    assert any(report.plan.graceful for report in reports)
    assert sum(verdict.duplicates for verdict in verdicts) > 0, "no fault made anything repeat"
    assert sum(verdict.in_flight_at_end for verdict in verdicts) > 0, "no handler outlived its epoch"
    assert sum(verdict.epochs for verdict in verdicts) > 100
    assert all(verdict.commits_acknowledged for verdict in verdicts)


def test_the_seeds_with_chunks_see_what_they_are_meant_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks run to their end, are ended early with and without a record that runs, and are spread."""
    seen: Counter[str] = Counter()
    settle, end_early, spread = Express.settle, Express.end_early, Express._spread_first

    def count_settled(express: Express, returned: Iterable[Any]) -> list[Lane]:
        returned = list(returned)
        seen["run to the end"] += sum(one is express.out for one in returned)
        return settle(express, returned)

    def count_ended(express: Express, chunk: Chunk) -> Lane | None:
        seen["ended early" if chunk.started() else "ended before the first"] += chunk is express.out
        return end_early(express, chunk)

    def count_spread(express: Express, assignment: Assignment) -> None:
        seen["spread"] += 1
        spread(express, assignment)

    monkeypatch.setattr(Express, "settle", count_settled)
    monkeypatch.setattr(Express, "end_early", count_ended)
    monkeypatch.setattr(Express, "_spread_first", count_spread)
    for seed in range(12):
        assert simulate(seed, plan=SimulationPlan.drawn_with_chunks(seed)).ok
    assert min(seen[what] for what in ("run to the end", "ended early", "spread")) > 20, seen
    assert seen["ended before the first"] > 0, seen


def test_the_seeds_with_streams_see_what_they_are_meant_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams side by side, to their end and ended early, with lanes behind them, and keys taken over."""
    seen: Counter[str] = Counter()
    end_stream, ready_behind, has_finished = Streams._end_stream, Streams._ready_behind, Chunk.has_finished

    def count_ended(streams: Streams, stream: Chunk) -> None:
        seen["side by side"] += len(stream.assignment.streams) > 1
        seen["run to the end"] += stream.started() == len(stream) > 1
        end_stream(streams, stream)

    def count_behind(streams: Streams, stream: Chunk) -> None:
        seen["ended early"] += stream.lane is not None
        seen["behind a stream"] += len(stream.behind or ())
        ready_behind(streams, stream)

    def count_finished(chunk: Chunk, key: Hashable) -> bool:
        finished = has_finished(chunk, key)
        seen["taken over" if finished else "met"] += 1
        return finished

    monkeypatch.setattr(Streams, "_end_stream", count_ended)
    monkeypatch.setattr(Streams, "_ready_behind", count_behind)
    monkeypatch.setattr(Chunk, "has_finished", count_finished)
    for seed in range(20):
        assert simulate(seed, plan=SimulationPlan.drawn_with_streams(seed)).ok
    kinds = ("side by side", "run to the end", "ended early", "behind a stream", "met")
    assert min(seen[kind] for kind in kinds) > 20, seen
    assert seen["taken over"] > 0, seen


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    """The same seed means the same plan, another seed another."""
    assert SimulationPlan.drawn(7) == SimulationPlan.drawn(7)
    assert SimulationPlan.drawn(7) != SimulationPlan.drawn(8)


def _outline(report: SimulationReport) -> tuple[object, ...]:
    return report.steps, report.virtual_s, report.trace, report.verdict
