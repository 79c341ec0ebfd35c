"""Threads stepped line by line, together with a poll thread that receives, looks, cuts, ends and resizes.

Order and overlaps of each key over all epochs, commits, lost wake-ups. Each rule of the driver and of the hub
that the promise rests on is taken out once: then some history must be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.workers import hub, thread_pool, threads
from tests.kit.mutant import table
from tests.workers.stepped_pool import History

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

SEEDS = 20
MUTANT_SEEDS = 300
WAYS: tuple[dict[str, Any], ...] = ({}, {"paced": True}, {"timed": True}, {"unread": True})


@pytest.mark.parametrize("way", WAYS, ids=["plain", "paced", "timed", "unread"])
def test_no_interleaving_breaks_a_promise(way: dict[str, Any]) -> None:
    """No two calls of a key at once, in order, each record ends, and no commit passes one that has not."""
    wrong = [(seed, found) for seed in range(SEEDS) if (found := History(seed, **way).run())]
    assert not wrong


def play() -> None:
    """Play histories until one is wrong."""
    for seed in range(MUTANT_SEEDS):
        assert not (wrong := History(seed).run()), wrong


GUARDS = r"""
ThreadWorkers._run: a record is not shown before it is removed
    inbox.head = one = q[0]  # shown before it leaves the queue -> one = q[0]
ThreadWorkers._consume: the last record stays shown
    inbox.head = None -> pass
threads.wait_until_taken: a failed record's consumer goes on
    while inbox.frozen: -> while False:
Hub.fail: a consumer is not frozen when its record fails
    inbox.frozen = True -> pass
thread_pool.sleep_until: a thread sleeps without a second look
    if not is_over(): -> if True:
thread_pool.sleep_until: a thread publishes that it sleeps after its look
    inbox.asleep = True\n    if not is_over():
    -> waits = not is_over()\n    inbox.asleep = True\n    if waits:
Hub.locked: the poll thread does not look again
    self.settle() -> pass
Hub.locked: the poll thread wakes no consumer
    self._after(touched) -> pass
Hub.settle: who settles wakes no consumer
    self._after(touched) -> pass
"""


@pytest.mark.parametrize("mutant", table(GUARDS, play, hub, thread_pool, threads), ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a rule, some history is wrong."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
