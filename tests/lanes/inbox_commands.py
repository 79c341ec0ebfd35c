"""Commands in a random history of inboxes: pauses, retries, skips, keys that need not wait for a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.waiting import BEHIND_LETTER
from tests.lanes.inbox_truth import Truth

if TYPE_CHECKING:
    import random

    from ehkafka.lanes.decision import Ticket
    from ehkafka.lanes.epoch import Epoch


class Commands(Truth):
    """Gives them, and notes what is true from then on."""

    r: random.Random
    keys: int
    epochs: dict[int, Epoch]
    tickets: list[Ticket]
    do: Any
    handle: Any

    def command(self, x: float) -> None:
        """Give one random command."""
        core, r = self.core, self.r
        if x < 0.2:
            self.do(core.router.piles.stop)
            return
        if x < 0.5:
            self.do(core.router.piles.resume)
            return
        if not self.epochs:
            return
        p, key = r.choice(list(self.epochs)), r.randrange(self.keys)
        busy = [name if self.is_shared else name[1] for name in self.running]
        if busy and r.random() < 0.6:
            key = r.choice(busy)
        epoch, name = self.epochs[p], key if self.is_shared else (p, key)
        if r.random() < 0.2:
            self.free()
            return
        held = core.waiting.find(key, epoch)
        if x < 0.6:
            self.do(core.waiting.pause_key, key, epoch)
        elif x < 0.7:
            self.do(core.waiting.resume_key, key, epoch)
        elif x < 0.85 and held is not None:
            self.drop_ticket(held)
            if held.ticket is None or held.is_parked:
                self.followed.discard(name)
            self.do(core.waiting.retry_key, key, epoch)
            self.followed.discard(name)
        elif held is not None and held.q and (held.ticket is None or held.is_parked):
            self.drop_ticket(held)
            count = r.randint(1, 3)
            entries = list(held.q)[:count]
            for entry in entries:
                self.outcome(entry)
            self.do(core.waiting.skip_key, key, epoch, count)

    def free(self) -> None:
        """Let a key continue though a call of an ended epoch runs for it."""
        self.handle()
        outliving = self.core.outliving
        for left in outliving.calls():
            epoch = next((one for one in self.epochs.values() if one.owners is left[EPOCH].owners), None)
            if epoch is None:
                continue
            # A batch has all records of the key that it was given together.
            self.freed.update(message.serial for message in self.running.pop(self.name(left), ()))
            self.do(outliving.free_key, left[KEY], epoch)
            return

    def drop_ticket(self, held: Any) -> None:
        """A command ends the wait for a dead letter that was sent by hand, or because of an earlier one."""
        if held.ticket is not None and held.is_parked:
            self.handle()
            if held.ticket in self.tickets:  # its answer comes all the same, and counts for nothing
                self.stops(held.q[0])

    def release(self) -> None:
        """Let held keys continue."""
        for held in list(self.core.waiting.held):
            epoch = next((e for e in self.epochs.values() if e.owners is held.owners), None)
            if epoch is None or held not in self.core.waiting.held:
                continue
            self.do(self.core.waiting.resume_key, held.key, epoch)
            if held.after == "divert_key" and held.q and held.decision is BEHIND_LETTER:
                continue  # the core sends it on by itself
            if (
                held in self.core.waiting.held
                and held.ticket is None
                and not isinstance(held.decision, RetryHead)
            ):
                self.followed.discard(held.key if self.is_shared else (epoch.partition.partition, held.key))
                self.do(self.core.waiting.retry_key, held.key, epoch)
