"""The simulator: whole groups of members over a fake broker, in virtual time, from one seed.

Drives the real core (inboxes and hub, flow control, ledger, epochs) single-threaded: a worker's steps, a
poll, an answer of the broker are timers of one virtual clock, and a worker may also run in the middle of
what the poll thread does under the lock. Every step is reported to the checker, which judges it at once.
The same seed gives the same run. `scripts/simulate` runs many.
"""

from __future__ import annotations

import random
import traceback
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.lanes.decision import AwaitHead
from ehkafka.records import Outcome
from tests.kit.checker.checker import Checker
from tests.kit.checker.verdict import FORBIDDEN, Measure, Verdict
from tests.kit.clock import VirtualClock
from tests.kit.simulated.chaos import Chaos
from tests.kit.simulated.group import CommitRefusal, SimulatedGroup
from tests.kit.simulated.log import SimulatedLog
from tests.kit.simulated.member import SimulatedMember
from tests.kit.simulated.plan import WAYS, SimulationPlan
from tests.kit.simulated.transactional_member import TransactionalMember, transactions_of
from tests.kit.simulated.transactions import SimulatedTransactions, TransactionalGroup
from tests.kit.simulated.worker import draw_decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.decision import Answer, Decision
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from tests.kit.simulated.member import Refusals

# After the faults have ended, all must be done and committed within so much virtual time.
HEALED_S = 120.0
COMMIT_TIMEOUT_S = 0.5
# So much longer than usual is a poll thread away that is held up, by a callback or a long `consume`.
HELD_UP_TIMES = 10
_TRACE_LINES = 80
_JUDGED_AT_ONCE = [measure for measure in FORBIDDEN if measure is not Measure.UNSEEN]


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """How one seed went. `problems` is empty when every promise was kept."""

    plan: SimulationPlan
    verdict: Verdict
    problems: tuple[str, ...]
    virtual_s: float
    steps: int
    trace: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the run kept every promise."""
        return not self.problems

    def report(self) -> str:
        """Return what went wrong, with the last steps and the command that replays it."""
        lines = [*self.problems, self.verdict.report(), self.plan.describe(), *self.trace]
        return "\n".join([*lines, f"replay: {self.replay}"])

    @property
    def replay(self) -> str:
        """The command that shows the same run."""
        plan = self.plan
        way = next((way for way, drawn in WAYS.items() if drawn(plan.seed) == plan), None)
        if way is None:
            return f"none: {plan.seed} with a plan of its own"
        return f"scripts/simulate --seed {plan.seed}" + (f" --{way}" if way else "")


def simulate(seed: int, *, plan: SimulationPlan | None = None, trace: bool = False) -> SimulationReport:
    """Run one seed and judge it. Without `trace`, a seed that fails is run once more for its steps."""
    report = Simulation(plan or SimulationPlan.drawn(seed), trace=trace).run()
    if report.ok or trace:
        return report
    return Simulation(report.plan, trace=True).run()


class Simulation:
    """One run. The members, their workers and the broker call each other through it."""

    def __init__(self, plan: SimulationPlan, *, trace: bool = False) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed)
        # Apart, so that what is drawn for a seed stays the same.
        self._fits_rng = random.Random(f"fits {plan.seed}")
        self.clock = VirtualClock()
        self.checker = Checker(lane_scope=self._lane_scope if plan.scope == "handler" else None)
        self.log = SimulatedLog(plan, self.rng, self._seam)
        make_group = TransactionalGroup if plan.transactions else SimulatedGroup
        self.group = make_group(plan, self.rng, self.clock.now_s, self.log.partitions, self._is_alive)
        self.transactions = SimulatedTransactions(self)
        self.members: list[SimulatedMember] = []
        self.left: list[SimulatedMember] = []
        self.calm = plan.graceful
        self._in_seam = False
        self._problems: list[str] = []
        self._trace: deque[str] | None = deque(maxlen=_TRACE_LINES) if trace else None
        self._members_ever = 0
        # Whose handler is about to be called.
        self.starting: SimulatedMember | None = None
        self.steps = 0

    def run(self) -> SimulationReport:
        """Run until everything is committed and everybody left, or until something is wrong."""
        for _ in range(self.plan.members):
            self.add_member()
        self._produce()
        chaos = Chaos(self)
        over = transactions_of(self) if self.plan.transactions else nullcontext()
        try:
            with over:
                while not self._problems and not chaos.over:
                    self._step()
        except Exception:  # the core's own failure is what is looked for
            self.problem(traceback.format_exc())
        return self._judge()

    def _step(self) -> None:
        due_s = self.clock.next_timer_s()
        assert due_s is not None, "nothing is left to happen"
        self.clock.advance_to(due_s)
        self.steps += 1
        counts = self.checker.findings.counts
        for measure in _JUDGED_AT_ONCE:
            if counts[measure]:
                self.problem(f"{measure}: {self.checker.findings.examples[measure][0]}")
        if due_s > self.plan.heal_s + HEALED_S:
            self.problem(f"not everything was finished and committed {HEALED_S:g} s after healing")

    def _judge(self) -> SimulationReport:
        verdict = self.checker.verdict(complete=not self._problems)
        if not self._problems and self.plan.transactions:
            self.transactions.judge_end()
        if not self._problems and self._is_broken(verdict):
            self.problem(verdict.summary())
        if not self._problems and self.plan.graceful and verdict.duplicates:
            self.problem(f"{verdict.duplicates} duplicates without a fault")
        trace = tuple(self._trace or ())
        now_s = self.clock.now_s()
        return SimulationReport(self.plan, verdict, tuple(self._problems), now_s, self.steps, trace)

    def _is_broken(self, verdict: Verdict) -> bool:
        # Who is out and does not know goes on for a while, and no bound says what that may repeat.
        knew = not self.group.unaware
        repeats = sum(self.checker.partition(partition).repeats for partition in self.log.partitions)
        return any(getattr(verdict, measure) for measure in FORBIDDEN) or bool(
            verdict.duplicates_unexplained if knew else repeats
        )

    def problem(self, sentence: str) -> None:
        """Note that something is wrong; the run ends with the current step."""
        self._problems.append(f"at {self.clock.now_s():.4f} s: {sentence}")

    def note(self, *words: object) -> None:
        """Keep a line of the trace."""
        if self._trace is not None:
            self._trace.append(f"{self.clock.now_s():9.4f} " + " ".join(map(str, words)))

    def add_member(self) -> None:
        """Start a process."""
        self._members_ever += 1
        name = f"member-{self._members_ever}"
        self.note(name, "is started")
        make = TransactionalMember if self.plan.transactions else SimulatedMember
        self.members.append(make(self, name, self._members_ever))

    def member_left(self, member: SimulatedMember) -> None:
        """Note that a process ended by itself."""
        member.gone = True
        self.members.remove(member)
        self.left.append(member)
        self.checker.process_ended(member.name)
        tally = member.inboxes.tally
        if tally.backlog_records or tally.backlog_bytes or member.owned:
            self.problem(f"{member.name} left with a backlog of {tally.backlog_records}")

    def kill(self, member: SimulatedMember) -> None:
        """End a process; the group hears nothing."""
        self.note(member.name, "is killed")
        member.gone = True
        self.members.remove(member)
        self.checker.process_ended(member.name)

    def _is_alive(self, name: str) -> bool:
        return any(member.name == name for member in self.members)

    def _lane_scope(self, partition: TopicPartition) -> str:
        # With the end of an epoch its failed records are the next owner's, and their keys go on; the
        # checker hears of it only when the last commit has been answered.
        member = self.starting
        leaving = None if member is None else member.handover.leaving.get(partition)
        return str(partition) if leaving is not None and leaving.ended else "handler"

    # Speeds and chances.

    def seam_s(self) -> float:
        """Return the time between two steps of a worker, usually none."""
        if self.rng.random() >= self.plan.seam_share:
            return 0.0
        return self.rng.expovariate(1 / self.plan.seam_s)

    def handler_s(self) -> float:
        """Return how long a handler runs."""
        return self.rng.expovariate(1 / self.plan.handler_s)

    def open_s(self) -> float:
        """Return how long the user's code takes until a partition is open."""
        return self.rng.expovariate(1 / 0.1)

    def poll_s(self) -> float:
        """Return the time between two polls."""
        is_held_up = self.plan.held_up_share > 0 and self.rng.random() < self.plan.held_up_share
        return self.rng.uniform(0.1, 2.0) * self.plan.poll_s * (HELD_UP_TIMES if is_held_up else 1)

    def finds_time(self) -> bool:
        """Tell whether what a drain has to finish fits into its time."""
        return self._fits_rng.random() < self.plan.fits_share

    def decide(self, member: SimulatedMember) -> Decision | None:
        """Return what becomes of a record whose handler just returned; `None`: it is finished."""
        plan = self.plan
        if self.rng.random() < plan.await_share:
            return AwaitHead("simulated wait", member.answer_later, after=plan.after_dead_letter)
        if self.calm or self.rng.random() >= plan.fail_share:
            return None
        return draw_decision(self.rng.random, plan.hold_share, plan.skip_share, plan.retry_s)

    def answer(self) -> Answer:
        """Return what becomes of a record that was awaited."""
        plan = self.plan
        if not self.calm and self.rng.random() < plan.fail_share:
            return draw_decision(self.rng.random, plan.hold_share, plan.skip_share, plan.retry_s)
        return self.rng.choice(list(Outcome))

    def preempt(self, member: SimulatedMember) -> None:
        """Let another thread of a process run in the middle of what one does under the lock, now and then."""
        if self._in_seam or not member.workers or self.rng.random() >= self.plan.preempt_share:
            return
        self._in_seam = True
        try:
            self.rng.choice(member.workers).preempt(self.rng.randint(1, 5))
        finally:
            self._in_seam = False

    def _seam(self) -> None:
        """Do the same where a message is read, which tells nothing of its process."""
        for member in self.members:
            if member.is_locked:
                self.preempt(member)

    # The broker.

    def _produce(self) -> None:
        partition, offset = self.log.append()
        self.checker.produced(partition, (offset,))
        if self.log.produced < self.plan.records:
            gap_s = self.rng.expovariate(self.plan.records / self.plan.produce_s)
            self.clock.call_after(gap_s, self._produce)

    def carry_commit(
        self,
        member: SimulatedMember,
        positions: dict[TopicPartition, Position],
        on_answer: Callable[[Refusals], None],
    ) -> None:
        """Bring a commit to the broker, in the order of one connection, and its answer back."""
        if isinstance(member, TransactionalMember):
            member.carry_commit(positions, on_answer)
            return
        plan, rng = self.plan, self.rng
        generation = member.generation
        arrives_s = self.clock.now_s() + rng.expovariate(1 / plan.network_s)
        member.last_arrival_s = arrives_s = max(arrives_s, member.last_arrival_s)
        request_lost = not self.calm and rng.random() < plan.request_lost_share
        answer_lost = request_lost or (not self.calm and rng.random() < plan.answer_lost_share)

        def arrive() -> None:
            refused = self._store(member.name, generation, positions)
            if not answer_lost:
                answer(refused, rng.expovariate(1 / plan.network_s))

        def answer(refused: Refusals, after_s: float) -> None:
            self.clock.call_after(after_s, lambda: member.answers.append(lambda: on_answer(refused)))

        if not request_lost:
            self.clock.call_at(arrives_s, arrive)
        if answer_lost:
            answer(dict.fromkeys(positions, CommitRefusal.TIMED_OUT), COMMIT_TIMEOUT_S)

    def _store(self, name: str, generation: int, positions: dict[TopicPartition, Position]) -> Refusals:
        rng = self.rng
        if self.calm or rng.random() >= self.plan.commit_error_share:
            return self.group.commit(name, generation, positions)
        # Some are not stored, all or only a part.
        bad = [partition for partition in positions if rng.random() < 0.7]
        good = {partition: position for partition, position in positions.items() if partition not in bad}
        return self.group.commit(name, generation, good) | dict.fromkeys(bad, CommitRefusal.COORDINATOR)
