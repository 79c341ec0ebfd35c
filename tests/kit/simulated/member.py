"""A member of a simulation: the real dispatcher, flow control, ledger and epochs behind a scripted poll loop.

Does what the poll loop, the membership and the committer do, in their order, without their threads: a
drain and the synchronous commit of a revoke take several polls. The checker hears of everything it does.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from itertools import islice, repeat
from typing import TYPE_CHECKING

from ehkafka.intake.backpressure import Backpressure
from ehkafka.intake.epochs import Epochs
from ehkafka.lanes.decision import AwaitHead, SkipHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.lane import SharedLane
from ehkafka.lanes.order import KeyReader, by_key
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.records import Outcome
from ehkafka.workers.batches.plan import BatchPlan
from tests.kit.simulated.batch_worker import SimulatedBatchWorker
from tests.kit.simulated.group import CommitRefusal
from tests.kit.simulated.handover import Handover
from tests.kit.simulated.intake import LateIntake, SimulatedIntake
from tests.kit.simulated.moves import ChunkMoves
from tests.kit.simulated.ranges import FinishedOffsets
from tests.kit.simulated.worker import SimulatedWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import Answer, Decision, Ticket
    from ehkafka.lanes.express import Express
    from ehkafka.lanes.lane import Lane
    from ehkafka.lanes.late import LateLanes
    from ehkafka.lanes.streams import Streams
    from ehkafka.records import Message, TopicPartition
    from tests.kit.simulated.simulator import Simulation

Refusals = dict["TopicPartition", CommitRefusal]

# Once so many polls in a row found nothing new, the next ones come this far apart.
IDLE_POLLS = 3
IDLE_POLL_S = 0.05


class SimulatedMember:
    """One process. `world` is the simulation it lives in."""

    def __init__(self, world: Simulation, name: str, pid: int) -> None:
        plan = world.plan
        self.world = world
        self.name = name
        self.history = world.checker.process(name, pid)
        self.dispatcher = Dispatcher(plan.scope)
        self.ledger = CommitLedger(CommitPacing(plan.commit_interval_s))
        self.epochs = Epochs()
        order_by = _key_of if plan.user_keys else by_key
        self.reader = KeyReader(order_by, null_key=plan.null_key)
        self.ranges = FinishedOffsets(self)
        self.owned: dict[TopicPartition, Assignment] = {}
        # Where each epoch began, and the offset to fetch next.
        self.starts: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.returned: deque[Lane | Chunk] = deque()
        # Answers to commits that came in since the last poll.
        self.answers: deque[Callable[[], None]] = deque()
        self.last_arrival_s = 0.0
        self.generation = -1
        self.gone = False
        self.leaving = False
        self._away: list[Callable[[], None]] | None = None
        # Commits that the checker waits for, by what it tells them apart by.
        self._unanswered: dict[tuple[TopicPartition, int], Position] = {}
        # By key, with lanes as wide as the handler: what runs.
        self._running: dict[Hashable, Message] = {}
        self._watermarks: dict[TopicPartition, int] = {}
        self._answers: deque[tuple[Ticket, Answer]] = deque()
        self.dispatcher.decisions.divert = self.divert
        # What batch workers take from; None with workers of single records.
        self.batches = BatchPlan(self.dispatcher, plan.batch_limits) if plan.batches else None
        # Its chunks where records get their lanes late, and lanes of those that no worker has yet.
        self.late: LateLanes | None = None
        self.taken: list[Lane] = []
        self.streams: Streams | None = None
        if plan.late_lanes:
            self.late = self.dispatcher.use_late_lanes(self.reader)
        elif plan.express and plan.scope == "partition":
            if plan.batches:
                express: Express = self.dispatcher.use_slices(self.reader, plan.batch_records_max)
            else:
                express = self.streams = self.dispatcher.use_express(self.reader)
                self.streams.records_max = plan.stream_records_max
                self.streams.workers = 1 + world.rng.randrange(plan.workers)
            express.on = world.rng.random() < 0.5
        self.intake = SimulatedIntake(self) if self.late is None else LateIntake(self)
        self.flow = self.intake.flow
        self.pressure = Backpressure(self.intake.as_context, [self.intake.as_route], lambda _partition: False)
        self.handover = Handover(self)
        self.moves = ChunkMoves(self)
        self.workers: list[SimulatedWorker] = []
        self._workers_ever = 0
        # How many workers are to leave, each as it looks for work.
        self.surplus_workers = 0
        self._add_workers(plan.workers)
        world.clock.call_after(world.poll_s(), self._poll)

    def _add_workers(self, number: int) -> None:
        worker = SimulatedBatchWorker if self.world.plan.batches else SimulatedWorker
        for _ in range(number):
            self.workers.append(worker(self, f"{self.name}/{self._workers_ever}"))
            self._workers_ever += 1

    def resize(self, size: int) -> None:
        """Let workers come, or leave once they look for work, as `ThreadWorkers.resize` does."""
        missing = size - (len(self.workers) - self.surplus_workers)
        if self.streams is not None:
            self.streams.workers = size
        stay = min(self.surplus_workers, max(0, missing))
        self.surplus_workers += max(0, -missing) - stay
        self._add_workers(missing - stay)
        self.intake.size = size
        for worker in self.workers:
            worker.wake()

    # The lock, as `Exchange` has it.

    @contextmanager
    def locked(self) -> Iterator[Dispatcher]:
        """Give the dispatcher with all handed-in lanes settled; workers run on meanwhile."""
        self.world.locked_member = self
        self._settle_returned()
        yield self.dispatcher
        self.world.locked_member = None
        self.settle()

    def settle(self) -> None:
        """Settle what was handed in."""
        while self.returned or self._answers:
            self.world.locked_member = self
            self._settle_returned()
            self.world.locked_member = None
        outbox = self.dispatcher.decisions.outbox
        while outbox:
            ticket = outbox.popleft()
            ticket.decision.begin(ticket)

    def _settle_returned(self) -> None:
        lanes = list(self.returned)
        self.returned.clear()
        now_s = self.world.clock.now_s()
        self.dispatcher.settle(lanes, now_s)  # type: ignore[arg-type]
        while self._answers:
            self.dispatcher.decisions.complete(*self._answers.popleft(), now_s)

    # Awaited heads.

    def divert(self, _lane: Lane, *_reason: str) -> Decision:
        """Send a record whose key was diverted to the dead letters, without an attempt."""
        return AwaitHead("simulated diversion", self._write_later, after="divert_key")

    def answer_later(self, ticket: Ticket) -> None:
        """Answer a ticket when some time has passed."""
        self.world.clock.call_after(self.world.handler_s(), lambda: self._answer(ticket, self.world.answer()))

    def _write_later(self, ticket: Ticket) -> None:
        outcome = Outcome.DEAD_LETTERED
        self.world.clock.call_after(self.world.handler_s(), lambda: self._answer(ticket, outcome))

    def _answer(self, ticket: Ticket, answer: Answer) -> None:
        if self.is_away(lambda: self._answer(ticket, answer)):
            return
        if self.dispatcher.decisions.ticket_of(ticket.lane) is not ticket:
            return  # a command let the lane go meanwhile
        reported = answer.value if isinstance(answer, Outcome) else "failed"
        self.finished(ticket.lane, "skipped" if isinstance(answer, SkipHead) else reported)
        self._answers.append((ticket, answer))
        self.settle()
        self.wake_workers()

    # Called by the workers.

    def hand_in(self, lane: Lane | Chunk) -> None:
        """Take a lane or a chunk back; it is settled now, or by whoever has the lock next."""
        self.returned.append(lane)
        if self.world.locked_member is None and self.world.settles_at_once():
            self.settle()
            self.wake_workers()

    def take(self) -> None:
        """Take a few lanes for all workers, as a loop does for its tasks: with the lock."""
        assert self.late is not None
        with self.locked():
            taken = self.late.take(self.world.rng.randint(1, 4))
        self.taken[:0] = reversed(taken)
        self.wake_workers()

    def give_back(self) -> None:
        """Hand in what no worker has, as a loop does at the end of its round."""
        while self.taken:
            self.hand_in(self.taken.pop())

    def started(self, lane: Lane, worker: str) -> None:
        """Note that the handler is called for a head."""
        assignment, head = lane.assignment, lane.head
        assert head is not None
        self.world.note(worker, "starts", head, lane.attempts)
        self.world.starting = self
        if not assignment.opened:
            self.world.problem(f"{head} starts before its partition was opened")
        if self.world.plan.scope == "handler":
            if lane.key in self._running:
                self.world.problem(f"{head} starts while {self._running[lane.key]} of its key runs")
            self._running[lane.key] = head
        self.history.started(
            assignment.partition, assignment.epoch, head.offset(), lane.key, lane.attempts + 1
        )

    def finished(self, lane: Lane, outcome: str) -> None:
        """Note that the handler returned."""
        assignment, head = lane.assignment, lane.head
        assert head is not None
        self.world.note(self.name, outcome, head)
        self._running.pop(lane.key, None)
        self._ended(lane, assignment, head, outcome)

    def skipped(self, lane: Lane, records: int) -> None:
        """Note that the first records of a lane on hold are skipped."""
        homes = (
            (home for home, _ in lane.rest or ()) if isinstance(lane, SharedLane) else repeat(lane.assignment)
        )
        taken = zip((lane.assignment, *islice(homes, len(lane) - 1)), lane.messages(), strict=True)
        for home, message in islice(taken, records):
            self.world.note(self.name, "skipped", message)
            self._ended(lane, home, message, "skipped")

    def _ended(self, lane: Lane, assignment: Assignment, message: Message, outcome: str) -> None:
        offset, attempt = message.offset(), lane.attempts + 1
        if outcome != "failed":
            self.ranges.add(assignment, offset)
        self.history.finished(assignment.partition, assignment.epoch, offset, lane.key, attempt, outcome)

    def wake_workers(self) -> None:
        """Wake as many idle workers as there are lanes ready."""
        ready = len(self.dispatcher.ready) + len(self.taken)
        if self.batches is not None:
            ready = self.batches.due.has_work * len(self.workers)
        elif self.late is not None:
            ready += self.late.waiting_records(len(self.workers))
        for worker in self.workers:
            if not ready:
                break
            if worker.asleep:
                worker.wake()
                ready -= 1

    # The poll loop.

    # What the last poll found, and how many before it found the same.
    _seen_at_poll: tuple[int, ...] = ()
    _idle_polls = 0

    def is_away(self, step: Callable[[], None]) -> bool:
        """Tell whether the process is dead or stopped; a stopped one takes the step when it is back."""
        if self.gone:
            return True
        if self._away is not None:
            self._away.append(step)
            return True
        return False

    def freeze(self) -> None:
        """Stop the process as SIGSTOP does."""
        if self._away is None:
            self._away = []

    def thaw(self) -> None:
        """Let a stopped process go on, all its threads at once."""
        steps, self._away = self._away or [], None
        for step in steps:
            self.world.clock.call_after(self.world.seam_s(), step)

    def _poll(self) -> None:
        if self.is_away(self._poll):
            return
        while self.answers and not self.gone:
            self.answers.popleft()()
        if self.gone:
            return
        self._watch()
        if self.handover.check():
            self._consume()
            self._resume()
            self._commit()
        self._watch()
        if not self.gone:
            self.world.clock.call_after(self._until_next_poll_s(), self._poll)

    def _until_next_poll_s(self) -> float:
        # A client waits in `consume` while nothing comes, but joins while a round lasts, or none would end.
        counts = self.dispatcher
        now = (counts.finished_records, counts.backlog_records, counts.parked_records, len(self.owned))
        self._idle_polls = self._idle_polls + 1 if now == self._seen_at_poll else 0
        self._seen_at_poll = now
        wait_s, idle_s = self.world.poll_s(), min(IDLE_POLL_S, self.world.plan.rebalance_s / 4)
        return wait_s if self._idle_polls < IDLE_POLLS else max(wait_s, idle_s)

    def _watch(self) -> None:
        self.give_back()
        self.settle()
        now_s = self.world.clock.now_s()
        due_s = self.dispatcher.holds.next_due_s()
        if due_s is not None and due_s <= now_s:
            with self.locked() as dispatcher:
                dispatcher.holds.unpark_due(now_s)
        self.moves.watch()
        self.wake_workers()

    def _consume(self) -> None:
        wanted = self.pressure.wanted(self.intake.as_client)
        if wanted == 0:
            if self.world.clock.now_s() < self.pressure.touch_due_s():
                return
            self.pressure.make_room(self.intake.as_client)
        self._receive(max(1, wanted))
        self.pressure.touched()
        self.flow.to_pause_parked(self.owned.values(), len(self.owned))
        self._check_bounds()

    def _receive(self, wanted: int) -> None:
        dispatcher, flow = self.dispatcher, self.flow
        open_positions = [(p, at) for p, at in self.positions.items() if p not in flow.paused]
        self.world.rng.shuffle(open_positions)
        for batch in self.world.log.fetch(open_positions, wanted):
            assignment = self.owned[batch[0].topic(), batch[0].partition()]  # type: ignore[index]
            keys = None if dispatcher.takes_unread(assignment) else self.reader.keys(batch)
            self.positions[assignment.partition] = batch[-1].offset() + 1
            self.ranges.note_received(assignment, batch)
            with self.locked():
                dispatcher.receive(assignment, batch, keys, self.world.clock.now_s())
            flow.note_batch(max(map(len, batch)))

    def _check_bounds(self) -> None:
        plan = self.world.plan
        held = self.dispatcher.backlog_records + self.dispatcher.parked_records
        owners: list[Dispatcher | Assignment] = [self.dispatcher, *self.owned.values()]
        for counted in owners:
            counts = (counted.backlog_records, counted.backlog_bytes, counted.parked_records)
            if min(*counts, counted.parked_bytes) < 0:
                self.world.problem(f"{self.name} counts {counts} records, bytes and parked records")
        if held > plan.backlog_records_max + plan.parked_records_max:
            self.world.problem(f"{self.name}: {held} records of backlog and parked pass their limits")

    def _resume(self) -> None:
        self.pressure.resume(self.intake.as_client)

    def _commit(self) -> None:
        now_s, finished = self.world.clock.now_s(), self.dispatcher.finished_records
        if not self.ledger.due(now_s, finished):
            return
        with self.locked():
            positions = self.positions_of(self.owned, is_last=False)
        dirty = self.ledger.plan(positions, now_s, finished)
        if dirty:
            self.send_commit(dirty, lambda refused: self.confirm(self.ledger.landed(), refused))

    # Commits.

    def positions_of(
        self, partitions: Mapping[TopicPartition, Assignment], *, is_last: bool = True
    ) -> dict[TopicPartition, Position]:
        """Compute what these could commit, at a tick or at the end of their epochs. Caller has the lock."""
        found = {}
        for partition, assignment in partitions.items():
            position = self.ranges.position(assignment, is_last=is_last)
            if position is None:
                continue
            self._check_watermark(partition, position.next_offset)
            self._check_leader_epoch(partition, position.next_offset - 1, position.leader_epoch)
            found[partition] = position
        return found

    def _check_watermark(self, partition: TopicPartition, next_offset: int) -> None:
        before = self._watermarks.get(partition, -1)
        if next_offset < before:
            self.world.problem(f"{self.name}: the watermark of {partition} fell from {before}")
        self._watermarks[partition] = next_offset

    def _check_leader_epoch(self, partition: TopicPartition, offset: int, committed: int | None) -> None:
        actual = self.world.log.leader_epoch_at(partition, offset)
        if offset >= self.starts[partition] and actual is not None and actual != committed:
            self.world.problem(f"{partition}@{offset} is of leader epoch {actual}, not {committed}")

    def send_commit(
        self, positions: dict[TopicPartition, Position], on_answer: Callable[[Refusals], None]
    ) -> None:
        """Send a commit; its answer comes with a later poll."""
        next_offsets = {partition: position.next_offset for partition, position in positions.items()}
        self.world.note(self.name, "commits", next_offsets)
        for place in next_offsets.items():
            # The checker tells requests apart by partition and offset: of two equal ones the later counts.
            if place in self._unanswered:
                self.history.commit_failed(dict([place]), "asked again")
            self._unanswered[place] = positions[place[0]]
        self.history.commit_requested(next_offsets)
        self.world.carry_commit(self, positions, on_answer)

    def confirm(self, sent: Mapping[TopicPartition, Position], refused: Refusals) -> None:
        """Take the answer to a commit into account."""
        now_s = self.world.clock.now_s()
        stored = {partition: position for partition, position in sent.items() if partition not in refused}
        self.world.note(self.name, "answered", stored, refused)
        if stored:
            self.ledger.confirm(stored, now_s)
        if refused:
            self.ledger.failed(now_s)
        too_long = {p: sent[p] for p, why in refused.items() if why is CommitRefusal.METADATA}
        if too_long:
            self.ledger.refuse_metadata(too_long)
        self._report_answer(sent, refused)

    def _report_answer(self, sent: Mapping[TopicPartition, Position], refused: Refusals) -> None:
        for partition, position in sent.items():
            place = (partition, position.next_offset)
            if self._unanswered.get(place) is not position:
                continue
            del self._unanswered[place]
            if partition in refused:
                self.history.commit_failed(dict([place]), refused[partition].value)
            else:
                self.history.commit_acknowledged(dict([place]))

    def forget(self, partition: TopicPartition, reason: str) -> None:
        """End an epoch everywhere but in the dispatcher."""
        epoch = self.epochs.end(partition)
        assert epoch is not None
        del self.owned[partition], self.starts[partition], self.positions[partition]
        self._watermarks.pop(partition, None)
        self.ledger.ended(partition)
        self.flow.forget(partition)
        self.ranges.forget(partition, epoch)
        self.history.revoked(partition, epoch, reason)


def _key_of(message: Message) -> Hashable:
    return message.key()
