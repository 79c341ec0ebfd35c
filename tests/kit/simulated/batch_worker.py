"""A batch worker of a simulated member: it takes what waits in its inbox, calls the handler for all at once.

What needs the lock is one step: a worker that runs in the midst of what another thread does under it waits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import AwaitHead, SkipHead
from ehkafka.lanes.put_back import put_back
from tests.kit.simulated.worker import LOCKED_S, SimulatedWorker, draw_decision

if TYPE_CHECKING:
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.workers.batches.taking import Taking
    from tests.kit.simulated.member import SimulatedMember


class SimulatedBatchWorker(SimulatedWorker):
    """Runs one batch after another; sleeps when none may go."""

    def __init__(self, member: SimulatedMember, inbox: Inbox) -> None:
        self._batch: list[Entry] = []
        # Failed records, each with its decision and the later ones of its key; what the whole batch raised.
        self._failed: list[tuple[Entry, Decision, list[Entry]]] = []
        self._raised = False
        super().__init__(member, inbox)

    @property
    def _taking(self) -> Taking:
        taking = self._member.taking
        assert taking is not None
        return taking

    def _wait(self) -> float:
        return self._locked(self._take, self._wait)

    _show = _wait

    def _take(self) -> float:
        now_s = self._world.clock.now_s()
        with self._hub.locked(noted=False) as inboxes:
            due_s = self._taking.due_s(self.inbox, now_s)
            if due_s is not None and (due_s <= now_s or self.inbox.leaves):
                self._batch = self._taking.take(self.inbox)
            else:
                inboxes.router.note(self.inbox)
                self.inbox.asleep = True
        if self._batch:
            self.inbox.asleep = False
            return self._then(self._call)
        if self.inbox.leaves:
            self.inbox.asleep = False
            return self._then(self._leave_locked)
        if due_s is not None:  # a batch fills: it goes when its time has come, be it woken or not
            self._next = self._wake_up
            return max(LOCKED_S, due_s - now_s)
        self._next = None
        return 0.0

    def _wake_up(self) -> float:
        self.inbox.asleep = False
        return self._then(self._show)

    def _leave_locked(self) -> float:
        return self._locked(self._leave, self._leave_locked)

    def open_gate(self) -> None:
        """Wake it: another record may make its batch full."""
        if self.inbox.asleep:
            if self._timer is not None:
                self._timer.cancel()
            self.inbox.asleep = False
            self._start()

    def _call(self) -> float:
        for entries in self._by_key(self._batch).values():
            self._member.started(entries[0], self.name)
        self._next = self._return
        return self._world.handler_s()

    def _return(self) -> float:
        world, plan = self._world, self._world.plan
        self._raised = not world.calm and world.rng.random() < plan.fail_share
        # Most batches finish whole.
        fails = world.rng.random() < 2 * (plan.fail_share + plan.await_share)
        self._failed = []
        for entries in self._by_key(self._batch).values():
            if self._raised:
                self._member.finished(entries[0], "failed")
            else:
                self._end(entries, fails=fails)
        if self._raised and len(self._batch) == 1:
            decision = draw_decision(world.rng.random, plan.hold_share, plan.skip_share, plan.retry_s)
            if isinstance(decision, SkipHead):
                self._member.started(self._batch[0], self.name)
                self._member.finished(self._batch[0], "skipped")
            self._failed, self._raised = [(self._batch[0], decision, [])], False
        return self._hand_in()

    def _end(self, entries: list[Entry], *, fails: bool) -> None:
        """Report the ends of one key's records, one after another, up to the first that fails."""
        for place, entry in enumerate(entries):
            if place:
                self._member.started(entry, self.name)
            decision = self._world.decide(self._member) if fails else None
            if decision is None:
                self._member.finished(entry, "finished")
                continue
            if not isinstance(decision, AwaitHead):
                self._member.finished(entry, "skipped" if isinstance(decision, SkipHead) else "failed")
            self._failed.append((entry, decision, entries[place + 1 :]))
            return

    def _hand_in(self) -> float:
        return self._locked(self._hand_in_locked, self._hand_in)

    def _hand_in_locked(self) -> float:
        """As `BatchWorkers._end` does."""
        batch, self._batch = self._batch, []
        with self._hub.locked(noted=False) as inboxes:
            if self._failed:
                inboxes.waiting.fail(self.inbox, self._failed, self._world.clock.now_s())
            if self._raised:
                head = self.inbox.head
                assert isinstance(head, list)
                self._taking.narrow(head, len(batch) // 2)
                put_back(inboxes, self.inbox)
            else:
                inboxes.end_batch(self.inbox)
        return self._then(self._show)

    def _by_key(self, batch: list[Entry]) -> dict[Any, list[Entry]]:
        found: dict[Any, list[Entry]] = defaultdict(list)
        for entry in batch:
            found[self._member.name_of(entry)].append(entry)
        return found
