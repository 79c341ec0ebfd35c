"""Finds what an action is about, and says why it cannot be done to it. Poll thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.lane import SharedLane
from ehkafka.lanes.order import describe_key
from ehkafka.run.steer.action import refused
from ehkafka.run.steer.names import (
    Found,
    lanes_at,
    lanes_of_keys,
    only_one,
    parse_head,
    partition_name,
)
from ehkafka.run.steer.refusals import WHY_NOT
from ehkafka.telemetry.picture import status_of
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.intake.route import Route
    from ehkafka.records import TopicPartition
    from ehkafka.run.steer.action import Action


class Finder:
    """Looks through the partitions that are ours."""

    def __init__(self, context: IntakeContext, routes: Sequence[Route]) -> None:
        self._context = context
        self._routes = routes

    def find(self, action: Action) -> Found:
        """Return the key that an action names. Raises `ActionRefusedError`."""
        head = parse_head(action.name)
        if head is None:
            found = lanes_of_keys(self._context.owned, action.name)
            if not found and action.do == "pause":
                self._leave_chunks()
                found = lanes_of_keys(self._context.owned, action.name)
            return only_one(found, action.name)
        partition, offset = head
        owned = self.owned(partition)
        at = list(lanes_at(owned, offset))
        if not at and action.do == "pause":
            self._leave_chunks()
            at = list(lanes_at(owned, offset))
        if not at:
            raise refused("moved", self._where_it_is(owned, offset))
        return at[0]

    def _leave_chunks(self) -> None:
        """Give each record a lane: in chunks nobody knows its key."""
        for route in self._routes:
            with route.exchange.locked() as dispatcher:
                dispatcher.dissolve_chunks()

    def _where_it_is(self, owned: OwnedPartition, offset: int) -> str:
        with owned.route.exchange.locked():
            watermark, received = owned.assignment.watermark(), owned.assignment.received_next
            unfinished = {message.offset() for message in owned.assignment.unfinished()}
        name = f"{partition_name(owned.assignment.partition)}@{offset}"
        if offset in unfinished:
            return f"Nothing was done: {name} is not at the head of its key, or runs with others at a time."
        if received is None or offset >= received:
            return f"Nothing was done: {name} has not been received yet."
        return f"Nothing was done: {name} has an outcome already; all below {watermark} have."

    def owned(self, partition: TopicPartition) -> OwnedPartition:
        """Return a partition of ours. Raises `ActionRefusedError` for another one."""
        owned = self._context.owned.get(partition)
        if owned is None:
            ours = ", ".join(map(partition_name, sorted(self._context.owned)[:20])) or "none"
            raise refused(
                "elsewhere",
                f"{partition_name(partition)} is not with this member, which has {ours}. `ehkafka owners` "
                "says who has it.",
            )
        return owned

    def status(self, found: Found) -> str:
        """Return what the key does now, as `Unfinished.status`."""
        with found.route.exchange.locked() as dispatcher:
            return status_of(dispatcher, found.lane)

    def is_paused(self, found: Found) -> bool:
        """Tell whether nothing of the key may start: somebody paused it, or stopped its handler."""
        with found.route.exchange.locked() as dispatcher:
            return dispatcher.holds.is_paused(found.lane)

    def heads(self, found: Found, *, all_of_it: bool) -> list[tuple[TopicPartition, int, int]]:
        """Return partition, epoch and offset of the records that an action takes."""
        lane = found.lane
        with found.route.exchange.locked():
            if not all_of_it:
                messages = lane.messages()[:1]
                homes = [found.assignment]
            elif isinstance(lane, SharedLane):
                homes = [lane.assignment, *(home for home, _ in lane.rest or ())]
                messages = lane.messages()
            else:
                messages = lane.messages()
                homes = [found.assignment] * len(messages)
        return [
            (home.partition, home.epoch, message.offset())
            for home, message in zip(homes, messages, strict=True)
        ]

    def must_wait(self, found: Found) -> None:
        """Refuse what is done only to a head that waits. Raises `ActionRefusedError`."""
        status = self.status(found)
        if (why := WHY_NOT.get(status)) is not None:
            reason = "running" if status == "deferred" else status
            where, mark = described(found), found.assignment.mark_at(found.offset)
            if mark is not None:
                where += f", received {seconds(self._context.clock() - mark.received_at_s)} ago,"
            raise refused(reason, f"Nothing was done: {where} {why}", (found.name,))


def described(found: Found) -> str:
    """Return a found key in words. Not under a lock: it may run code of the user's."""
    return f"{found.name} (key {describe_key(found.lane.key)})"
