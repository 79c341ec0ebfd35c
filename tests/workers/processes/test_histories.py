"""Random histories of child processes' inboxes: nothing lost, two at once, swapped or started too late.

Each guard is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

import pytest

from ehkafka.lanes import resizing
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.processes import inbox
from ehkafka.workers.processes.inbox import ChildInbox
from tests.kit.mutant import Mutant, table
from tests.lanes.inbox_consumers import Message
from tests.lanes.inbox_world import histories, run_seed
from tests.workers.processes.child_world import ChildWorld

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "400")) // 4


def test_a_key_stays_where_a_child_has_a_record_of_it_ahead_of_others() -> None:
    """In random histories that one has nearly always ended by the time the next one would start."""
    inboxes = Inboxes(1, make_inbox=ChildInbox)
    epoch = inboxes.assign(TopicPartition("t", 0), 1)
    (busy,) = inboxes.inboxes
    assert isinstance(busy, ChildInbox)
    first: Any = [Message(0, 0, 1), Message(0, 1, 2)]
    later: Any = [Message(0, 2, 1)]
    for message, key in zip(first, [1, 2], strict=True):  # of a take they would have the last one's number
        inboxes.receive(epoch, [message], [key], 0.0)
    assert len(busy.take(9, 9, one_of_a_key=False)) == 2
    (idle,) = resizing.grow(inboxes.router, 1)
    inboxes.router.idle.append(idle)
    inboxes.receive(epoch, later, [1], 0.0)
    assert not idle.q


def test_random_histories() -> None:
    """Children, failures, deaths, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed, ChildWorld) for seed in range(1000, 1000 + SEEDS))
    assert calls > SEEDS * 20


GUARDS = r"""
ChildInbox.withdraw: what a child has not started stays with it
    0 if self.permits is None else self.permits.take(len(shown)) -> 0
ChildInbox.withdraw: what comes back is in the wrong order
    appendleft -> append
ChildInbox.take: a batch's keys are dead but for the last
    self.slack = max(1, len(taken)) ->
    by test_a_key_stays_where_a_child_has_a_record_of_it_ahead_of_others
ChildInbox.withdraw: what was withdrawn counts as running
    self.head = shown[:-withdrawn] -> pass
"""


@pytest.mark.parametrize(
    "mutant", table(GUARDS, partial(histories, 100, ChildWorld), inbox, sys.modules[__name__]), ids=str
)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a history goes wrong."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
