"""How a simulated member takes part in its group: joining, assign, revoke with drain and commit, lost."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ehkafka.progress.ledger import Position
from tests.kit.simulated.group import CommitRefusal, Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.ending import Work
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.records import TopicPartition
    from tests.kit.simulated.member import SimulatedMember


class _State(enum.Enum):
    OUT = "not in the group"
    JOINING = "waits for the round to end"
    STABLE = "owns what it was given"
    REVOKING = "gives partitions back"


class Handover:
    """The group's side of one member's poll loop."""

    def __init__(self, member: SimulatedMember) -> None:
        self._member = member
        self._world = member.world
        self._state = _State.OUT
        # Partitions that are being drained and given back.
        self.leaving: dict[TopicPartition, Epoch] = {}
        self._deadline_s = 0.0
        self._commit_sent = False
        self._after: Callable[[], None] = self._join

    def check(self) -> bool:
        """Do what the group asks for now; tell whether the poll loop may consume and commit."""
        member, group = self._member, self._world.group
        standing = group.heartbeat(member.name)
        if self._state is not _State.OUT and standing is Standing.UNKNOWN:
            self._lose_all()
        if self._state is _State.OUT:
            if member.leaving:
                self._leave()
            else:
                self._join()
        elif self._state is _State.JOINING:
            # The next round may have begun before the last one's assignment was fetched.
            (self._join if standing is Standing.REBALANCE else self._take_assignment)()
        elif self._state is _State.REVOKING:
            self._go_on_revoking()
        elif member.leaving:
            self._revoke(dict(member.owned), self._leave)
        elif standing is Standing.REBALANCE:
            if self._world.plan.cooperative:
                self._join()
            else:
                self._revoke(dict(member.owned), self._join)
        return self._state in {_State.STABLE, _State.JOINING} and not member.gone

    def _join(self) -> None:
        member, group = self._member, self._world.group
        if self._state is not _State.OUT and group.heartbeat(member.name) is Standing.UNKNOWN:
            # Put out meanwhile: the join is refused, and nothing is owned any more.
            self._lose_all()
            return
        self._world.note(member.name, "joins with", sorted(member.owned))
        self._state = _State.JOINING
        group.join(member.name, list(member.owned))

    def _leave(self) -> None:
        member = self._member
        self._world.note(member.name, "leaves")
        self._world.group.leave(member.name)
        self._world.member_left(member)

    def _take_assignment(self) -> None:
        member, group = self._member, self._world.group
        target = group.assignment(member.name)
        if target is None:
            return
        self._state = _State.STABLE
        member.generation = group.generation
        for partition in target:
            if partition not in member.owned:
                self._assign(partition)
        gone = {p: epoch for p, epoch in member.owned.items() if p not in target}
        if gone:
            self._revoke(gone, self._join)

    def _assign(self, partition: TopicPartition) -> None:
        member, world = self._member, self._world
        committed = self._committed(partition)
        offset, metadata = committed or (world.plan.log_start, None)
        number = member.epochs.begin(partition)
        opened = not world.plan.opens_late
        finished_before = member.ranges.restore(partition, offset, metadata)
        with member.hub.locked() as inboxes:
            epoch = inboxes.assign(partition, number, finished_before=finished_before, opened=opened)
            epoch.received.next_offset = offset
        member.owned[partition] = epoch
        member.starts[partition] = member.positions[partition] = offset
        facts = member.ranges.carried(partition)
        stored = None if committed is None else Position(number, offset, None, metadata, facts=facts)
        member.ledger.assigned(partition, number, stored)
        member.ranges.begin(epoch, stored)
        world.note(member.name, "is assigned", partition, number, offset)
        member.history.assigned(partition, number, str(offset))
        if not opened:
            world.clock.call_after(world.open_s(), lambda: self._open(epoch))

    def _committed(self, partition: TopicPartition) -> tuple[int, str | None] | None:
        return self._world.group.committed.get(partition)

    def _open(self, epoch: Epoch) -> None:
        member = self._member
        if member.is_away(lambda: self._open(epoch)):
            return
        with member.hub.locked() as inboxes:
            if not epoch.ended:
                inboxes.open(epoch)

    def _revoke(self, partitions: dict[TopicPartition, Epoch], after: Callable[[], None]) -> None:
        member, world = self._member, self._world
        world.note(member.name, "gives back", sorted(partitions))
        self._state = _State.REVOKING
        self.leaving, self._after, self._commit_sent = partitions, after, False
        drain_s = world.plan.drain_s
        self._deadline_s = world.clock.now_s() + drain_s
        self._drain(self._fits if drain_s > 0 else None)
        self._go_on_revoking()

    def _drain(self, fits: Callable[[Work], bool] | None) -> None:
        with self._member.hub.locked() as inboxes:
            inboxes.ending.drain(list(self.leaving.values()), fits)

    def _fits(self, work: Work) -> bool:
        return not work.records or self._world.finds_time()

    def _go_on_revoking(self) -> None:
        member, world = self._member, self._world
        if self._commit_sent:
            return
        with member.hub.locked() as inboxes:
            drained = inboxes.ending.is_drained(list(self.leaving.values()))
        if not drained and world.clock.now_s() < self._deadline_s:
            if world.plan.fits_share < 1.0 and world.plan.drain_s > 0:
                self._drain(self._fits)
            return
        if not self._is_settled():
            return
        with member.hub.locked() as inboxes:
            positions = member.positions_of(self.leaving)
            inboxes.ending.end(list(self.leaving.values()))
        self._commit_sent = True
        self._send_last(self.leaving, positions)

    def _send_last(
        self, leaving: dict[TopicPartition, Epoch], positions: dict[TopicPartition, Position]
    ) -> None:
        member = self._member
        dirty = member.ledger.dirty(positions)
        if dirty:
            member.send_commit(dirty, lambda refused: self._final_answer(leaving, dirty, refused))
        else:
            self._end_revoke()

    def _is_settled(self) -> bool:
        """Tell whether the last positions may be fixed."""
        return True

    def _final_answer(
        self,
        leaving: dict[TopicPartition, Epoch],
        sent: dict[TopicPartition, Position],
        refused: dict[TopicPartition, CommitRefusal],
    ) -> None:
        self._member.confirm(sent, refused)
        # A member that was put out meanwhile no longer waits for this answer; it may give back others by now.
        if self.leaving is not leaving:
            return
        too_long = {p: sent[p] for p, why in refused.items() if why is CommitRefusal.METADATA}
        if any(position.metadata for position in too_long.values()):
            # As the committer does: at once again, without metadata.
            self._send_last(leaving, too_long)
        else:
            self._end_revoke()

    def _end_revoke(self) -> None:
        for partition in self.leaving:
            self._member.forget(partition, "revoked")
        self.leaving = {}
        self._after()

    def _lose_all(self) -> None:
        member = self._member
        self._world.note(member.name, "lost", sorted(member.owned))
        self.leaving = dict(member.owned)
        with member.hub.locked() as inboxes:
            inboxes.ending.end([one for one in member.owned.values() if not one.ended])
        for partition in list(member.owned):
            member.forget(partition, "lost")
        self.leaving = {}
        self._state = _State.OUT
