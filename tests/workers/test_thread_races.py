"""Threads at full speed: no record lies with a sleeping one; order holds over rebalances and failures."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.workers.thread_pool import wait_until_taken
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


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
