"""A batch worker of a simulated member: it collects, calls the handler for all at once, and hands in.

What needs the lock is one step: a worker that runs in the midst of what another thread does under it waits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import AwaitHead, SkipHead
from ehkafka.lanes.lane import Lane
from ehkafka.workers.batches.share import Share
from tests.kit.simulated.worker import SimulatedWorker, draw_decision

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.decision import Decision
    from ehkafka.workers.batches.plan import BatchPlan
    from ehkafka.workers.batches.share import Part


class SimulatedBatchWorker(SimulatedWorker):
    """Runs one batch after another; sleeps when none may go."""

    _parts: Sequence[Part] = ()
    # What became of records that did not finish, by offset and partition; then whether the handler raised.
    _failed: dict[Any, Decision | None]
    _raised = False

    @property
    def _plan(self) -> BatchPlan:
        plan = self._member.batches
        assert plan is not None
        return plan

    def _locked(self, step: Callable[[], float], again: Callable[[], float]) -> float:
        """Take a step that needs the lock, or wait for it."""
        return self._then(again) if self._world.locked_member is self._member else step()

    def _pop(self) -> float:
        return self._locked(self._collect, self._pop)

    def _collect(self) -> float:
        if self._leaves():
            return 0.0
        now_s = self._world.clock.now_s()
        parts: list[Part] = []
        with self._member.locked():
            while not parts and self._plan.wait_s(now_s) == 0.0:
                parts = self._plan.take(now_s)
        if not parts:
            self._next = None
            return 0.0
        self._parts = parts
        return self._then(self._call)

    def _call(self) -> float:
        for lanes in self._by_key(self._parts).values():
            self._member.started(lanes[0], self.name)
        self._next = self._draw
        return self._world.handler_s()

    def _draw(self) -> float:
        world, plan = self._world, self._world.plan
        self._raised = not world.calm and world.rng.random() < plan.fail_share / 2
        # Most batches finish whole.
        fails = self._raised or world.rng.random() < 2 * (plan.fail_share + plan.await_share)
        self._failed = {}
        for part in self._parts if fails and not self._raised else ():
            for message in part.messages:
                if (decision := world.decide(self._member)) is not None:
                    self._failed[_place(message)] = decision
        return self._then(self._return if self._raised or self._failed else self._end_whole)

    def _end_whole(self) -> float:
        for lanes in self._by_key(self._parts).values():
            self._report(lanes, None)
        for part in self._parts:
            if isinstance(part, Share):
                part.ended_records = len(part.messages)
        return self._then(self._hand_in)

    def _return(self) -> float:
        return self._locked(self._separate, self._return)

    def _separate(self) -> float:
        with self._member.locked():
            self._parts = shares = self._plan.separate(self._parts)
            if self._raised:
                self._blame(shares)
        for share in shares:
            lanes = _reports(share)
            if self._raised:
                skips = isinstance(share.decision, SkipHead)
                self._member.finished(lanes[0], "skipped" if skips else "failed")
                continue
            for number, message in enumerate(share.messages):
                decision = self._failed.get(_place(message))
                if decision is not None:
                    share.ended_records, share.decision = number, decision
                    self._report(lanes[: number + 1], decision)
                    break
            else:
                share.ended_records = len(lanes)
                self._report(lanes, None)
        return self._then(self._hand_in)

    def _blame(self, shares: list[Share]) -> None:
        """As `BatchWorkers._blame` does."""
        plan, rng = self._world.plan, self._world.rng
        records = sum(len(share.messages) for share in shares)
        if records > 1:
            self._plan.narrow(shares, records // 2)
        else:
            shares[0].decision = draw_decision(rng.random, plan.hold_share, plan.skip_share, plan.retry_s)

    def _hand_in(self) -> float:
        return self._locked(self._hand_in_locked, self._hand_in)

    def _hand_in_locked(self) -> float:
        parts, self._parts = self._parts, ()
        with self._member.locked():
            self._plan.pass_over([part for part in parts if isinstance(part, Share)])
            self._plan.hand_in(parts, self._world.clock.now_s())
        self._member.wake_workers()
        return self._then(self._pop)

    def _report(self, lanes: list[Lane], decision: Decision | None) -> None:
        """Report the ends of one key's records, of which the last may have failed, one after another."""
        for number, lane in enumerate(lanes):
            if number:
                self._member.started(lane, self.name)
            if decision is None or number + 1 < len(lanes):
                self._member.finished(lane, "finished")
            elif not isinstance(decision, AwaitHead):
                self._member.finished(lane, "skipped" if isinstance(decision, SkipHead) else "failed")

    def _by_key(self, parts: Sequence[Part]) -> dict[Any, list[Lane]]:
        """Return what is reported of each record, by epoch and key: lanes of nobody's."""
        found: dict[Any, list[Lane]] = defaultdict(list)
        for part in parts:
            if isinstance(part, Share):
                found[part].extend(_reports(part))
                continue
            # Read anew: the checker must not get what the chunk remembers.
            for key, message in zip(self._member.reader.keys(part.messages), part.messages, strict=True):
                found[part.assignment, key].append(Lane(key, part.assignment, message))
        return found


def _reports(share: Share) -> list[Lane]:
    assignment: Assignment = share.lane.assignment
    lanes = [Lane(share.lane.key, assignment, message) for message in share.messages]
    lanes[0].attempts = share.attempt - 1
    return lanes


def _place(message: Any) -> Any:
    return message.topic(), message.partition(), message.offset()
