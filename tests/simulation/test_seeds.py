"""Seeds of the simulator: every promise of the contract under random schedules and faults.

`scripts/simulate` runs more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.balance import Balance
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.put_back import put_back
from ehkafka.lanes.waiting import WaitingKeys
from tests.kit.simulated import batch_worker
from tests.kit.simulated.group import CommitRefusal
from tests.kit.simulated.handover import Handover
from tests.kit.simulated.plan import WAYS, SimulationPlan
from tests.kit.simulated.simulator import Simulation, SimulationReport, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.records import TopicPartition
    from tests.kit.simulated.member import SimulatedMember

SEEDS, SEEDS_WITH_BATCHES, SEEDS_WITH_TRANSACTIONS = (
    int(os.environ.get(f"EHKAFKA_SIMULATION_SEEDS{way}", "80"))
    for way in ("", "_WITH_BATCHES", "_WITH_TRANSACTIONS")
)
# The first ones of each way run where what they see is counted.
COUNTED, COUNTED_WITH_BATCHES, COUNTED_WITH_TRANSACTIONS = 40, 40, 60
AT_ONCE = 20
# Red in a long run: short sessions and a new member's last commit that the broker refused for its metadata.
FOUND = (4437, 8891, 13013, 20315)
# As well: a batch that raised while a partition drained let go of its keys before the epoch's end, and with
# scope="handler" another partition's records of these passed.
FOUND_WITH_BATCHES = (43425, 47361)
# As well: a drain never ended, because a key whose next record might not start any more counted as busy.
FOUND_WITH_SHORT_TEXTS = (495,)
# Of each way: the seeds that are left.
LEFT: dict[str, Sequence[int]] = {
    "": (*FOUND, *range(COUNTED, SEEDS)),
    "batches": (*FOUND_WITH_BATCHES, *range(COUNTED_WITH_BATCHES, SEEDS_WITH_BATCHES)),
    "transactions": range(COUNTED_WITH_TRANSACTIONS, SEEDS_WITH_TRANSACTIONS),
    "short-texts": (*FOUND_WITH_SHORT_TEXTS, *range(SEEDS_WITH_TRANSACTIONS // 3)),
}


@pytest.mark.parametrize(
    ("way", "seeds"), [(way, left[at : at + AT_ONCE]) for way, left in LEFT.items() for at in left[::AT_ONCE]]
)
def test_no_seed_breaks_a_promise(way: str, seeds: Sequence[int]) -> None:
    """Lost, premature, order, stale and unseen are 0; no duplicate without a fault.

    Batches: whole, halved, with failed records, long ones, revokes. With transactions each record's outputs
    are visible once, in order, and just when its commit is; also where commits have not room for all.
    """
    for seed in seeds:
        report = simulate(seed, plan=WAYS[way](seed))
        assert report.ok, report.report()


def test_the_seeds_with_batches_see_what_they_are_meant_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of many records are taken, raise, and have records that fail."""
    seen: Counter[str] = Counter()
    take, fail = Inboxes.take, WaitingKeys.fail

    def count_taken(inboxes: Inboxes, inbox: Inbox, records_max: int) -> list[Entry]:
        entries = take(inboxes, inbox, records_max)
        seen["of several records"] += len(entries) > 1
        return entries

    def count_raised(inboxes: Inboxes, inbox: Inbox) -> None:
        seen["raised"] += 1
        put_back(inboxes, inbox)

    def count_failed(waiting: WaitingKeys, inbox: Inbox, failures: Any, now_s: float) -> None:
        seen["with a failed record"] += 1
        seen["with followers of one"] += any(later for _, _, later in failures)
        fail(waiting, inbox, failures, now_s)

    monkeypatch.setattr(Inboxes, "take", count_taken)
    monkeypatch.setattr(batch_worker, "put_back", count_raised)
    monkeypatch.setattr(WaitingKeys, "fail", count_failed)
    for seed in range(COUNTED_WITH_BATCHES):
        report = simulate(seed, plan=SimulationPlan.drawn_with_batches(seed))
        assert report.ok, report.report()
    assert len(seen) == 4, seen
    assert min(seen.values()) > 10, seen


def test_the_seeds_with_transactions_see_what_they_are_meant_to_see() -> None:
    """Transactions end in every way, by every side, and outputs are refused meanwhile."""
    seen: Counter[str] = Counter()
    for seed in range(COUNTED_WITH_TRANSACTIONS):
        simulation = Simulation(SimulationPlan.drawn_with_transactions(seed))
        report = simulation.run()
        assert report.ok, report.report()
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
    assert min(seen[what] for what in ("taken back", "not waited for", "batch too large")) > 0, seen


def test_a_broker_that_takes_no_commit_while_a_group_rebalances_costs_repeats_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the embedded one. Partitions whose last commit it refused go to other members, and come back."""
    next_owners: Counter[bool] = Counter()
    refused: dict[TopicPartition, SimulatedMember] = {}
    answered, assign = Handover._final_answer, Handover._assign

    def note_refused(handover: Handover, leaving: Any, sent: Any, why: dict[TopicPartition, Any]) -> None:
        refused.update((one, handover._member) for one in why if why[one] is CommitRefusal.REBALANCE)
        answered(handover, leaving, sent, why)

    def count_assigned(handover: Handover, partition: TopicPartition) -> None:
        if (before := refused.pop(partition, None)) is not None:
            next_owners[before is handover._member] += 1
        assign(handover, partition)

    monkeypatch.setattr(Handover, "_final_answer", note_refused)
    monkeypatch.setattr(Handover, "_assign", count_assigned)
    for plan in map(SimulationPlan.drawn, range(COUNTED)):
        refused.clear()
        if not plan.graceful:
            report = simulate(plan.seed, plan=replace(plan, refuses_in_rounds=True))
            assert report.ok, report.report()
    assert min(next_owners[True], next_owners[False]) > 20, next_owners


@pytest.mark.parametrize(("way", "seed"), [("", 3), ("transactions", 2)])
def test_a_seed_replays_exactly(way: str, seed: int) -> None:
    """The command that a failing seed prints shows the same run; of several threads one runs at a time.

    Events say how long something has taken; that, too, is of the virtual clock.
    """
    first, second = (simulate(seed, plan=WAYS[way](seed), trace=True) for _ in range(2))
    assert _outline(first) == _outline(second)


def test_the_seeds_see_what_they_are_meant_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation in which nothing happens proves nothing.

    Partitions come back while calls of earlier epochs keep keys; records move and wait behind them.
    """
    seen: Counter[str] = Counter()
    begin, even_out = Ending.begin, Balance._even_out

    def count_begun(ending: Ending, partition: Any, *arguments: Any) -> Epoch:
        epoch = begin(ending, partition, *arguments)
        if ending._router.shared is None:
            seen["keys kept"] += len(epoch.owners)
        return epoch

    def count_moves(balance: Balance, moving: set[Inbox]) -> None:
        inboxes = balance._router.inboxes
        before = [len(inbox.q) for inbox in inboxes]
        even_out(balance, moving)
        seen["records moved"] += before != [len(inbox.q) for inbox in inboxes]

    monkeypatch.setattr(Ending, "begin", count_begun)
    monkeypatch.setattr(Balance, "_even_out", count_moves)
    reports = [simulate(seed) for seed in range(COUNTED)]
    for report in reports:
        assert report.ok, report.report()
    assert min(4 * seen["keys kept"], seen["records moved"]) > 20, seen
    verdicts = [report.verdict for report in reports]
    assert {report.plan.scope for report in reports} == {"partition", "handler"}
    assert {report.plan.cooperative for report in reports} == {True, False}
    assert any(report.plan.graceful for report in reports)
    assert sum(verdict.duplicates for verdict in verdicts) > 0, "no fault made anything repeat"
    assert sum(verdict.in_flight_at_end for verdict in verdicts) > 0, "no handler outlived its epoch"
    assert sum(verdict.epochs for verdict in verdicts) > 100
    assert all(verdict.commits_acknowledged for verdict in verdicts)


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    """The same seed means the same plan, another seed another."""
    assert SimulationPlan.drawn(7) == SimulationPlan.drawn(7)
    assert SimulationPlan.drawn(7) != SimulationPlan.drawn(8)


def _outline(report: SimulationReport) -> tuple[object, ...]:
    return report.steps, report.virtual_s, report.trace, report.verdict
