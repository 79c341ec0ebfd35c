"""Threads stepped line by line, together with a poll thread that receives, looks, cuts, ends and resizes.

Order and overlaps of each key over all epochs, commits, lost wake-ups. Each rule of the driver and of the hub
that the promise rests on is taken out once: then some history must be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.workers import thread_pool, threads
from ehkafka.workers.hub import Hub
from ehkafka.workers.threads import ThreadWorkers
from tests.workers.stepped_pool import History

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = 30
MUTANT_SEEDS = 300
WAYS: tuple[dict[str, Any], ...] = ({}, {"paced": True}, {"timed": True}, {"unread": True})


@pytest.mark.parametrize("way", WAYS, ids=["plain", "paced", "timed", "unread"])
def test_no_interleaving_breaks_a_promise(way: dict[str, Any]) -> None:
    """No two calls of a key at once, in order, each record ends, and no commit passes one that has not."""
    wrong = [(seed, found) for seed in range(SEEDS) if (found := History(seed, **way).run())]
    assert not wrong


MUTANTS = {
    "a record is shown after it was removed": (
        *(ThreadWorkers, "_run"),
        "inbox.head = q[0]  # shown before it leaves the queue\n            one = q.popleft()\n",
        "one = q.popleft()\n            inbox.head = one\n",
    ),
    "the last record stays shown": (ThreadWorkers, "_consume", "inbox.head = None\n", "pass\n"),
    "a failed record's consumer goes on": (
        threads,
        "wait_until_taken",
        "while inbox.frozen:",
        "while False:",
    ),
    "a consumer is not frozen when its record fails": (Hub, "fail", "inbox.frozen = True", "pass"),
    "a thread sleeps without a second look": (
        *(thread_pool, "sleep_until"),
        "if not is_over():",
        "if True:",
    ),
    "a thread publishes that it sleeps after its look": (
        *(thread_pool, "sleep_until"),
        "inbox.asleep = True\n    if not is_over():\n",
        "waits = not is_over()\n    inbox.asleep = True\n    if waits:\n",
    ),
    "the poll thread does not look again": (Hub, "locked", "self.settle()", "pass"),
    "the poll thread wakes no consumer": (Hub, "locked", "self._after(touched)", "pass"),
    "who settles wakes no consumer": (Hub, "settle", "self._after(touched)", "pass"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant(name: str, mutate: Callable[..., None]) -> None:
    """Without a rule, some history is wrong."""
    mutate(*MUTANTS[name])
    assert any(History(seed).run() for seed in range(MUTANT_SEEDS)), "nothing was noticed"
