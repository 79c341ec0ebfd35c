"""Random histories of child processes' inboxes: nothing lost, two at once, swapped or started too late.

Each guard is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest

from ehkafka.lanes import resizing
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.processes.inbox import ChildInbox
from tests.kit.mutant import Mutant
from tests.lanes.inbox_consumers import Message
from tests.workers.processes.child_world import run_seed

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "1000")) // 4
MUTANT_SEEDS = 100


def goes_wrong() -> bool:
    """Run some histories; raises what one of them finds."""
    for seed in range(MUTANT_SEEDS):
        run_seed(seed)
    return False


def is_split() -> bool:
    """Tell whether a key's next record goes elsewhere while a child has the one before, ahead of others.

    In random histories that one has nearly always ended by the time the next one would start.
    """
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
    return bool(idle.q)


of_an_inbox = partial(Mutant, is_red=goes_wrong)

MUTANTS = [
    of_an_inbox(
        "what a child has not started stays with it",
        ChildInbox.withdraw,
        "0 if self.claims is None else self.claims.take(len(shown))",
        "0",
    ),
    of_an_inbox("what comes back is in the wrong order", ChildInbox.withdraw, "appendleft", "append"),
    Mutant(
        "a batch's keys are dead but for the last",
        ChildInbox.take,
        "self.slack = max(1, len(taken))",
        "",
        is_split,
    ),
    of_an_inbox(
        "what was withdrawn counts as running", ChildInbox.withdraw, "self.head = shown[:-withdrawn]", "pass"
    ),
]


def test_random_histories() -> None:
    """Children, failures, deaths, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed) for seed in range(1000, 1000 + SEEDS))
    assert calls > SEEDS * 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_guard_is_needed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this guard a history goes wrong."""
    assert mutant.is_red is goes_wrong or not mutant.is_red()
    mutant.apply(monkeypatch)
    assert mutant.is_noticed(), f"nothing noticed: {mutant.name}"
