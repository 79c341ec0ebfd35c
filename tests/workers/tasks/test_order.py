"""Order of keys on tasks, over failures, ends of epochs, cancellations and other numbers of workers."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest

from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import EPOCH, KEY
from tests.workers.tasks.conftest import LIMIT_S, Pool, offset_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry

RECORDS = 6_000


class Member:
    """Receives a partition over many epochs. The pool itself refuses two calls of a key at once."""

    def __init__(self, pool: Callable[..., Pool], seed: int) -> None:
        self.rng = rng = random.Random(seed)
        keys = [b"k%d" % n for n in range(rng.choice((3, 20, 200)))]
        self.keys = [rng.choice(keys) for _ in range(RECORDS)]
        # The last offset that was called, by epoch and key; what has finished.
        self.last: dict[tuple[int, object], int] = {}
        self.done: set[int] = set()
        # What has finished, with its epoch: nothing may twice.
        self.finished: set[tuple[int, int]] = set()
        self.swapped: list[tuple[int, int]] = []
        self.pool = pool(8, self.work)
        self.pool.decide = lambda _attempt, _error: RetryHead(rng.random() * 0.005, "it failed")

    async def work(self, entry: Entry) -> None:
        """Handle a record in one of many ways."""
        rng, epoch, offset = self.rng, entry[EPOCH], offset_of(entry)
        before = self.last.get((epoch.number, entry[KEY]), -1)
        if before > offset:
            self.swapped.append((before, offset))
        self.last[epoch.number, entry[KEY]] = offset
        chance = rng.random()
        if chance < 0.3:
            await asyncio.sleep(0)
        elif chance < 0.41:
            await asyncio.sleep(rng.random() * 0.004 if chance < 0.4 else 0.03)
        if rng.random() < 0.02:
            raise ValueError
        assert (epoch.number, offset) not in self.finished
        self.finished.add((epoch.number, offset))
        if not epoch.ended:
            self.done.add(offset)

    def run_epoch(self, position: int) -> int:
        """Receive for an epoch that begins here, with or without a drain; return the commit's position."""
        rng, pool = self.rng, self.pool
        epoch = pool.assign()
        received = position
        for _ in range(rng.randrange(1, 12)):
            batch = self.keys[received : received + rng.randrange(1, 200)]
            if batch:
                pool.receive(epoch, received, batch)
                received += len(batch)
            pool.hub.watch()
            if rng.random() < 0.1:
                pool.workers.resize(rng.choice((1, 3, 8, 20)))
            time.sleep(rng.random() * 0.003)
        if rng.random() < 0.5:
            self.drain(epoch)
        with pool.hub.locked() as inboxes:
            next_offset = epoch.watermark()
            inboxes.ending.end([epoch])
        if rng.random() < 0.5:
            pool.workers.cancel_ended()
        assert next_offset is not None
        assert set(range(position, next_offset)) <= self.done
        return next_offset

    def drain(self, epoch: Epoch) -> None:
        """Drain for a moment."""
        with self.pool.hub.locked() as inboxes:
            inboxes.ending.drain([epoch], lambda _work: True)
        ends_s = time.monotonic() + 0.05
        while time.monotonic() < ends_s:
            self.pool.hub.watch()
            time.sleep(1e-3)


@pytest.mark.usefixtures("switch_often")
@pytest.mark.parametrize("seed", range(6))
def test_keys_keep_their_order_and_nothing_is_lost(pool: Callable[..., Pool], seed: int) -> None:
    """No two calls of a key at once over all epochs, its order kept in each."""
    member = Member(pool, seed)
    position, ends_s = 0, time.monotonic() + LIMIT_S
    while position < RECORDS and time.monotonic() < ends_s:
        position = member.run_epoch(position)
    assert position == RECORDS
    assert member.swapped == []
    assert {type(error) for error in member.pool.failed} <= {ValueError}
    assert member.pool.deaths == []
