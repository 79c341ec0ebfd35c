"""Threads at full speed: no record lies with a sleeping one; order holds over rebalances and failures."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import AwaitHead, RetryHead, SkipHead
from ehkafka.records import Outcome
from ehkafka.workers.thread_pool import wait_until_taken
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.decision import Ticket

LIMIT_S = 30.0

pytestmark = pytest.mark.usefixtures("switch_often")


def test_a_record_that_finds_threads_falling_asleep_is_handled_without_a_watch(
    pool: Callable[..., Any],
) -> None:
    """5 000 single records at random moments and four threads: the wake-up of each is enough."""
    rng = random.Random(7)
    made = pool(4)
    epoch = made.assign()
    for offset in range(5_000):
        made.receive(epoch, offset, [b"k%d" % rng.randrange(3)])
        for _ in range(rng.randrange(300)):
            pass
        if rng.random() < 0.3:
            wait_until(lambda offset=offset: made.handled > offset, meanwhile=lambda: time.sleep(0))
    wait_until(lambda: made.handled == 5_000)
    assert not made.wrong


def give_up(made: Any, epochs: dict[int, Any], gone: list[int], committed: list[int]) -> None:
    """Drain and end the epochs of some partitions, and note what is committed."""
    with made.hub.locked() as inboxes:
        inboxes.ending.drain([epochs[partition] for partition in gone], lambda _work: True)
    made.hub.watch()
    with made.hub.locked() as inboxes:
        ending = {partition: epochs.pop(partition) for partition in gone}
        for partition, epoch in ending.items():
            at = epoch.watermark()
            if at is not None:
                assert all(offset in made.judge.done[epoch] for offset in range(committed[partition], at))
                committed[partition] = at
        inboxes.ending.end(list(ending.values()))


@pytest.mark.parametrize("seed", range(3))
def test_order_holds_over_rebalances_failures_and_resizing(pool: Callable[..., Any], seed: int) -> None:
    """No two calls of a key at once in any epoch, order in each, and each record ends."""
    rng = random.Random(seed)
    tickets: list[Ticket] = []

    def work(_entry: Any, number: int) -> None:
        chosen = rng.random()
        if chosen < 0.1:
            time.sleep(chosen / 50)
        if number == 1 and chosen > 0.97:
            raise ValueError

    def decide(attempt: Any, _error: BaseException) -> Any:
        chosen = rng.random()
        if chosen < 0.5:
            return RetryHead(0.001, "again")
        if chosen < 0.7:
            made.judge.done[attempt.epoch].add(attempt.message.offset())
            return SkipHead("skipped")
        made.judge.holds(attempt.entry)
        return AwaitHead("asked", tickets.append)

    def answer() -> None:
        while tickets:
            ticket = tickets.pop()
            made.judge.lets_go(ticket.attempt, finished=True)
            made.hub.answer(ticket, Outcome.FINISHED)

    made = pool(8, work, on_failure=decide)
    log: list[list[bytes]] = [[], []]
    committed = [0, 0]
    epochs = {}
    ends_s = time.monotonic() + 3.0
    while time.monotonic() < ends_s:
        for partition in (0, 1):
            if partition not in epochs:
                epochs[partition] = made.assign(partition)
                if backlog := log[partition][committed[partition] :]:
                    made.receive(epochs[partition], committed[partition], backlog)
            keys = [b"k%d" % rng.randrange(40) for _ in range(rng.choice((1, 20, 100)))]
            first = len(log[partition])
            log[partition] += keys
            made.receive(epochs[partition], first, keys)
        made.hub.watch()
        answer()
        if rng.random() < 0.1:
            made.workers.resize(rng.choice((1, 4, 8, 12)))
        if rng.random() < 0.1:
            give_up(made, epochs, [partition for partition in epochs if rng.random() < 0.7], committed)
    wait_until(
        lambda: not (made.hub.tally.unfinished_records or tickets),
        meanwhile=lambda: (made.hub.watch(), answer(), time.sleep(1e-3)),
    )
    assert not made.wrong


class TakenLate:
    """A frozen inbox that is taken over in the moment before its thread publishes that it sleeps."""

    def __init__(self) -> None:
        self.frozen = True
        self.gate = threading.Lock()
        self.gate.acquire()

    @property
    def asleep(self) -> bool:
        """Whether its thread sleeps."""
        return False

    @asleep.setter
    def asleep(self, _asleep: bool) -> None:
        self.frozen = False


def test_a_thread_whose_record_was_taken_over_just_now_does_not_fall_asleep() -> None:
    """Who took it over found no thread asleep: this one must see it itself."""
    thread = threading.Thread(target=wait_until_taken, args=(TakenLate(),), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
