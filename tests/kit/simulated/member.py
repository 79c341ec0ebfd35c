"""A member of a simulation: the real hub, inboxes, flow control and ledger behind a scripted poll loop.

Does what the poll loop, the membership and the committer do, in their order, without their threads: a
drain and the synchronous commit of a revoke take several polls. The checker hears of everything it does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.intake.backpressure import Backpressure
from ehkafka.intake.owned import OwnedPartitions
from ehkafka.lanes import resizing
from ehkafka.lanes.decision import AwaitHead, SkipHead
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader, by_key
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.records import Outcome
from ehkafka.workers.batches.taking import Taking
from ehkafka.workers.hub import Hub
from tests.kit.simulated.batch_worker import SimulatedBatchWorker
from tests.kit.simulated.group import CommitRefusal
from tests.kit.simulated.handover import Handover
from tests.kit.simulated.intake import SimulatedIntake
from tests.kit.simulated.ranges import FinishedOffsets
from tests.kit.simulated.worker import InOrder, SimulatedWorker, watched_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from ehkafka.lanes.decision import Answer, Attempt, Decision, Ticket
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.tally import Tally
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
        self.inboxes = Inboxes(plan.workers, plan.scope, watched_queue(self._seam))
        self.inboxes.router.touched = InOrder()  # type: ignore[assignment]
        self.inboxes.router._moving = InOrder()  # type: ignore[assignment]
        self.hub = Hub(self.inboxes, world.clock.now_s)
        self.hub.wake = self._wake
        self.ledger = CommitLedger(CommitPacing(plan.commit_interval_s))
        self.epochs = OwnedPartitions()
        self.reader = KeyReader(_key_of if plan.user_keys else by_key, null_key=plan.null_key)
        self.ranges = FinishedOffsets(self)
        self.owned: dict[TopicPartition, Epoch] = {}
        # Where each epoch began, and the offset to fetch next.
        self.starts: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        # Answers to commits that came in since the last poll.
        self.answers: deque[Callable[[], None]] = deque()
        self.last_arrival_s = 0.0
        self.generation = -1
        self.gone = False
        self.leaving = False
        self._away: list[Callable[[], None]] | None = None
        # Commits that the checker waits for, by what it tells them apart by.
        self._unanswered: dict[tuple[TopicPartition, int], Position] = {}
        # What runs, by key, over all epochs of the process.
        self._running: dict[Hashable, Message] = {}
        self._watermarks: dict[TopicPartition, int] = {}
        self.inboxes.waiting.divert = self.divert
        # What batch workers take from; None with workers of single records.
        self.taking = Taking(self.inboxes, plan.batch_limits) if plan.batches else None
        if plan.batches:
            self.inboxes.router.deep = plan.batch_limits.records_max
        self.intake = SimulatedIntake(self)
        self.flow = self.intake.flow
        self.pressure = Backpressure(self.intake.as_context, [self.intake.as_route], lambda _partition: False)
        self.handover = Handover(self)
        self.workers: list[SimulatedWorker] = []
        self._add_workers(self.inboxes.inboxes)
        world.clock.call_after(world.poll_s(), self._poll)

    # The lock and the workers.

    @property
    def is_locked(self) -> bool:
        """Tell whether a thread of this process has the hub's lock now."""
        return self.hub._lock.locked()

    def _seam(self) -> None:
        """Let workers run in the middle of what is done under the lock."""
        if self.is_locked:
            self.world.preempt(self)

    def _add_workers(self, inboxes: Sequence[Inbox]) -> None:
        kind = SimulatedBatchWorker if self.world.plan.batches else SimulatedWorker
        self.workers += [kind(self, inbox) for inbox in inboxes]

    def _wake(self, inboxes: Iterable[Inbox]) -> None:
        woken = set(inboxes)
        for worker in self.workers:
            if worker.inbox in woken:
                worker.open_gate()

    def resize(self, size: int) -> None:
        """Let workers come, or leave once they have nothing, as `ThreadPool.resize` does."""
        missing = size - len(self.inboxes.inboxes)
        with self.hub.locked() as inboxes:
            if missing > 0:
                self._add_workers(resizing.grow(inboxes.router, missing))
            elif missing < 0:
                resizing.shrink(inboxes.router, -missing)
        self.intake.workers.size = size

    # Awaited records.

    def divert(self, _attempt: Attempt, *_reason: str) -> Decision:
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
        if ticket.held.ticket is not ticket or ticket.held not in self.inboxes.waiting.held:
            return  # a command let the key go meanwhile
        reported = answer.value if isinstance(answer, Outcome) else "failed"
        self.finished(ticket.attempt.entry, "skipped" if isinstance(answer, SkipHead) else reported)
        self.hub.answer(ticket, answer)

    # What consumers report.

    def name_of(self, entry: Entry) -> Hashable:
        """Return by what two records are of one key."""
        return entry[KEY] if self.world.plan.scope == "handler" else (entry[EPOCH].partition, entry[KEY])

    def started(self, entry: Entry, worker: str) -> None:
        """Note that the handler is called for a record."""
        message, key, epoch, name = entry[MESSAGE], entry[KEY], entry[EPOCH], self.name_of(entry)
        number = self.attempt_of(entry)
        self.world.note(worker, "starts", message, number)
        self.world.starting = self
        if epoch in self.inboxes.router.piles.unopened:
            self.world.problem(f"{message} starts before its partition was opened")
        if name in self._running:
            self.world.problem(f"{message} starts while {self._running[name]} of its key runs")
        self._running[name] = message
        self.history.started(epoch.partition, epoch.number, message.offset(), key, number)

    def attempt_of(self, entry: Entry) -> int:
        """Return the number of a record's call."""
        return self.inboxes.router.attempt_of(entry).number

    def finished(self, entry: Entry, outcome: str) -> None:
        """Note that the handler returned, or that a deferred record has an answer."""
        self.world.note(self.name, outcome, entry[MESSAGE])
        self._running.pop(self.name_of(entry), None)
        self._ended(entry, outcome)

    def skipped(self, entries: Iterable[Entry]) -> None:
        """Note that the first records of a waiting key are skipped."""
        for entry in entries:
            self.world.note(self.name, "skipped", entry[MESSAGE])
            self._ended(entry, "skipped")

    def _ended(self, entry: Entry, outcome: str) -> None:
        epoch, offset = entry[EPOCH], entry[MESSAGE].offset()
        if outcome != "failed":
            self.ranges.add(epoch, offset)
        number = self.attempt_of(entry)
        self.history.finished(epoch.partition, epoch.number, offset, entry[KEY], number, outcome)

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
        counts = self.inboxes.tally
        now = (counts.finished_records, counts.backlog_records, counts.parked_records, len(self.owned))
        self._idle_polls = self._idle_polls + 1 if now == self._seen_at_poll else 0
        self._seen_at_poll = now
        wait_s, idle_s = self.world.poll_s(), min(IDLE_POLL_S, self.world.plan.rebalance_s / 4)
        return wait_s if self._idle_polls < IDLE_POLLS else max(wait_s, idle_s)

    def _watch(self) -> None:
        self.hub.watch()

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
        open_positions = [(p, at) for p, at in self.positions.items() if p not in self.flow.paused]
        self.world.rng.shuffle(open_positions)
        parts: list[Any] = []
        for batch in self.world.log.fetch(open_positions, wanted):
            epoch = self.owned[batch[0].topic(), batch[0].partition()]  # type: ignore[index]
            self.positions[epoch.partition] = batch[-1].offset() + 1
            self.ranges.note_received(epoch, batch)
            parts.append((epoch, batch, self.reader.keys(batch), (), None))
            self.flow.note_batch(max(map(len, batch)))
        self.hub.receive(parts)

    def _check_bounds(self) -> None:
        plan = self.world.plan
        held = self.inboxes.tally.unfinished_records
        tallies: list[Tally] = [self.inboxes.tally, *(epoch.tally for epoch in self.owned.values())]
        for counted in tallies:
            counts = (counted.backlog_records, counted.backlog_bytes, counted.parked_records)
            if min(*counts, counted.parked_bytes) < 0:
                self.world.problem(f"{self.name} counts {counts} records, bytes and parked records")
        if held > plan.backlog_records_max + plan.parked_records_max:
            self.world.problem(f"{self.name}: {held} records of backlog and parked pass their limits")

    def _resume(self) -> None:
        self.pressure.resume(self.intake.as_client)

    def _commit(self) -> None:
        now_s, finished = self.world.clock.now_s(), self.inboxes.tally.finished_records
        if not self.ledger.due(now_s, finished):
            return
        with self.hub.locked():
            positions = self.positions_of(self.owned, is_last=False)
        dirty = self.ledger.plan(positions, now_s, finished)
        if dirty:
            self.send_commit(dirty, lambda refused: self.confirm(self.ledger.landed(), refused))

    # Commits.

    def positions_of(
        self, partitions: Mapping[TopicPartition, Epoch], *, is_last: bool = True
    ) -> dict[TopicPartition, Position]:
        """Compute what these could commit, at a tick or at the end of their epochs. Caller has the lock."""
        found = {}
        for partition, epoch in partitions.items():
            position = self.ranges.position(epoch, is_last=is_last)
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
        """End an epoch everywhere but in the inboxes."""
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
