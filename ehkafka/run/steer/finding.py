"""Finds what an action is about, and says why it cannot be done to it. Poll thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.seen import Inspection
from ehkafka.run.steer.action import refused
from ehkafka.run.steer.names import (
    Found,
    key_at,
    keys_named,
    only_one,
    parse_head,
    partition_name,
)
from ehkafka.run.steer.refusals import WHY_NOT
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.lanes.seen import RecordSeen
    from ehkafka.records import TopicPartition
    from ehkafka.run.steer.action import Action


class Finder:
    """Looks through the partitions that are ours."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context

    def find(self, action: Action) -> Found:
        """Return the key that an action names. Raises `ActionRefusedError`."""
        head = parse_head(action.name)
        if head is None:
            return only_one(keys_named(self._context.owned, action.name), action.name)
        partition, offset = head
        owned = self.owned(partition)
        found = key_at(owned, offset)
        if found is None:
            raise refused("moved", self._where_it_is(owned, offset))
        return found

    def _where_it_is(self, owned: OwnedPartition, offset: int) -> str:
        epoch = owned.epoch
        with owned.route.hub.locked():
            watermark, received = epoch.watermark(), epoch.received.next_offset
            unfinished = {entry[MESSAGE].offset() for entry in epoch.unfinished()}
        name = f"{partition_name(epoch.partition)}@{offset}"
        if offset in unfinished:
            return f"Nothing was done: {name} is not at the head of its key."
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

    def seen(self, found: Found) -> RecordSeen:
        """Return what the key's first record does now."""
        with found.route.hub.locked() as inboxes:
            return Inspection(inboxes).record(found.head)

    def is_paused(self, found: Found) -> bool:
        """Tell whether nothing of the key may start: it is paused by hand, or its handler is stopped."""
        with found.route.hub.locked() as inboxes:
            held = inboxes.waiting.find(found.key, found.epoch)
            return inboxes.router.piles.stopped is not None or (held is not None and held.is_paused)

    @staticmethod
    def heads(found: Found, *, all_of_it: bool) -> list[tuple[TopicPartition, int, int]]:
        """Return partition, epoch and offset of the records that an action takes."""
        return [
            (entry[EPOCH].partition, entry[EPOCH].number, entry[MESSAGE].offset())
            for entry in (found.records if all_of_it else found.records[:1])
        ]

    def must_wait(self, found: Found) -> None:
        """Refuse what is done only to a head that waits. Raises `ActionRefusedError`."""
        status = self.seen(found).status
        if (why := WHY_NOT.get(status)) is not None:
            reason = "running" if status == "deferred" else status
            where, mark = described(found), found.epoch.received.marks.at(found.offset)
            if mark is not None:
                where += f", received {seconds(self._context.clock() - mark.received_at_s)} ago,"
            raise refused(reason, f"Nothing was done: {where} {why}", (found.name,))


def described(found: Found) -> str:
    """Return a found key in words. Not under a lock: it may run code of the user's."""
    return f"{found.name} (key {describe_key(found.key)})"
