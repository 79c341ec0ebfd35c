"""How long a run that begins waits for the one whose mark it found: over slow brokers, in virtual time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import GroupInUseError
from ehkafka.positions.first_counts import FirstCounts
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, CommitPacing
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group import commits
from ehkafka.spark.engine.group import ownership as ownership_module
from ehkafka.spark.engine.group.commits import Commits
from ehkafka.spark.engine.group.judge import Commit
from ehkafka.spark.engine.group.marks import Mark
from ehkafka.spark.engine.group.ownership import GroupWatch

P0 = TopicPartition("t", 0)
BEFORE = Mark("before")
SLOWNESS_S = [0.01, 0.5, 1.0, 2.0, 4.0, 8.0, 11.0]


class SlowGroup:
    """A group behind a broker that takes its time; each call moves the clock, and nothing is waited for.

    `is_late`: a request is slow to arrive, instead of its answer. The run before puts its mark back
    `answers_after_s` after somebody else's first commit.
    """

    def __init__(self, slowness_s: float, *, is_late: bool, answers_after_s: float | None = None) -> None:
        self.now_s = 0.0
        self._slowness_s = slowness_s
        self._is_late = is_late
        self._answers_after_s = answers_after_s
        self._answers_at_s = float("inf")
        self._commit = Commit(5, BEFORE.text)

    def clock(self) -> float:
        """Return the time."""
        return self.now_s

    def consume(self, _count: int, timeout_s: float) -> list[Any]:
        """Wait."""
        self.now_s += timeout_s
        return []

    def committed(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return what the group has."""
        if timeout < self._slowness_s:
            self.now_s += timeout
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "slow"))
        begun_s, self.now_s = self.now_s, self.now_s + self._slowness_s
        seen_s = self.now_s if self._is_late else begun_s
        found = Commit(5, BEFORE.text) if seen_s >= self._answers_at_s else self._commit
        return [KafkaPartition(one.topic, one.partition, found[0], metadata=found[1]) for one in asked]

    def commit(self, offsets: list[KafkaPartition], *, asynchronous: bool) -> list[KafkaPartition]:
        """Store it."""
        assert not asynchronous
        begun_s, self.now_s = self.now_s, self.now_s + self._slowness_s
        self._commit = Commit(offsets[0].offset, offsets[0].metadata)
        if self._answers_after_s is not None:
            self._answers_at_s = (self.now_s if self._is_late else begun_s) + self._answers_after_s
        return offsets


def take(group: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Begin a run over the mark of the one before."""
    for module in (commits, ownership_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=group.clock))
    ledger = CommitLedger(CommitPacing())
    committer = Committer(ledger, clock=group.clock, emit=lambda _event: None, fatal=lambda _error: None)
    context: Any = SimpleNamespace(
        ledger=ledger,
        committer=committer,
        on_epoch_begin=lambda *_arguments: None,
        positions=SimpleNamespace(first_counts=FirstCounts()),
    )
    held = GroupWatch(Mark("new"), [BEFORE], "The group 'g'", lambda _event: None)
    begins = Commits(context, group, held, whose="The group 'g'", bytes_max=1_023)
    return begins.take({P0: 5}, {P0: Commit(5, BEFORE.text)}, 15.0)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("slowness_s", SLOWNESS_S)
def test_a_run_that_died_is_followed_over_a_slow_broker(
    slowness_s: float, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers, so the next run begins, in a time that is known: three looks, or four seconds.

    The trap: every other look was given up too early, and each one began the wait anew.
    """
    group = SlowGroup(slowness_s, is_late=is_late)
    assert take(group, monkeypatch)
    assert group.now_s < 10 + 7 * slowness_s


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("slowness_s", SLOWNESS_S)
def test_a_run_that_lives_is_heard_over_a_slow_broker(
    slowness_s: float, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have just begun a look; then it looks, and commits: it needs three answers and its pace."""
    group = SlowGroup(
        slowness_s, is_late=is_late, answers_after_s=3 * slowness_s + ownership_module.CHECK_S + 0.3
    )
    with pytest.raises(GroupInUseError, match="another run on Spark, before,"):
        take(group, monkeypatch)
