"""Partitions that wait for where they begin: asked about again, each group apart, and placed by a seek."""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.intake.owned import OwnedPartitions
from ehkafka.intake.repair import assign_anew
from ehkafka.intake.waiting import AGAIN_S, AGAIN_S_MAX, WITHIN_S, BeginLater
from ehkafka.positions.finder import Begin, Lookups
from ehkafka.positions.gap import LogBounds
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOOKUP_S = 5.0


class Bench:
    """A client, a member and a group's commits: what of them is silent, costs a look-up's time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.calls: list[tuple[str, Any]] = []
        self.tries: list[list[TopicPartition]] = []
        self.refused: list[TopicPartition] = []
        self.silent: set[TopicPartition] = set()
        self.may_take_s = math.inf
        self.seek_error: KafkaError | None = None
        self.owned = OwnedPartitions()
        self.waiting = self.owned.waiting
        context: Any = SimpleNamespace(
            clock=lambda: self.now_s,
            owned=self.owned,
            begins=SimpleNamespace(positions=SimpleNamespace(lookups=Lookups(), within=self.within)),
        )
        me: Any = self
        self._later = BeginLater(context, me, lambda partition, _reason: self.refused.append(partition))

    @contextmanager
    def within(self, all_s: float) -> Iterator[None]:
        """Note how long a look-up may take."""
        self.may_take_s = all_s
        yield
        self.may_take_s = math.inf

    def list_topics(self, **_arguments: object) -> None:
        """Tell of no leaders."""

    def begin_known(self, _consumer: object, partitions: list[TopicPartition]) -> list[Begin]:
        """Begin all, or none where one is silent: a question fails as a whole."""
        assert self.may_take_s <= WITHIN_S
        self.tries.append(sorted(partitions))
        if self.silent.intersection(partitions):
            self.now_s += LOOKUP_S
            self.waiting.note(dict.fromkeys(partitions, "silent"), self.now_s)
            return []
        for partition in partitions:
            del self.waiting[partition]
            self.owned.logs.forget(partition)
        return [Begin(p, 100, KafkaPartition(*p, 100, leader_epoch=5)) for p in partitions]

    def seek(self, at: KafkaPartition) -> None:
        """Place a partition."""
        self.calls.append(("seek", (at.partition, at.offset, at.leader_epoch)))
        if self.seek_error is not None and at.partition == 0:
            raise KafkaException(self.seek_error)

    def after_assign(self, _consumer: object, partitions: list[TopicPartition]) -> None:
        """See to placed ones."""
        self.calls += [("goes on", partition.partition) for partition in partitions]

    def wait(self, *partitions: TopicPartition) -> None:
        """Let partitions wait from now on."""
        self.turn()
        self.waiting.note(dict.fromkeys(partitions, "silent"), self.now_s)

    def answer(self, partition: TopicPartition) -> None:
        """Let its leader answer the question of `LogEnds`."""
        self.owned.logs.answered(partition, LogBounds(0, 7), self.now_s)

    def turn(self, after_s: float = 0.0) -> None:
        """Run it after a time."""
        self.now_s += after_s
        me: Any = self
        self._later.run(me)


@pytest.fixture
def bench() -> Bench:
    """Return one in which nothing waits."""
    return Bench()


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_client_hears_of_the_begin_by_a_seek_with_the_commits_leader_epoch(
    bench: Bench, *, is_refused: bool
) -> None:
    """An assign would count as the answer to a revoke that the client has queued during the look-up.

    A partition that will not be sought is repaired, for its epoch has begun; the others go on.
    """
    bench.seek_error = KafkaError(KafkaError._STATE) if is_refused else None
    bench.wait(P0, P1)
    bench.turn(AGAIN_S)
    on = [] if is_refused else [("goes on", 0)]
    assert bench.calls == [("seek", (0, 100, 5)), *on, ("seek", (1, 100, 5)), ("goes on", 1)]
    assert bench.refused == ([P0] if is_refused else [])


def test_a_leader_that_answers_does_not_wait_for_another_ones_dead_one(bench: Bench) -> None:
    """Also where the first try after its answer failed."""
    bench.silent = {P0, P1}
    bench.wait(P0, P1)
    bench.answer(P0)
    bench.turn()
    assert bench.tries == [[P0]]
    bench.silent = {P1}
    ends_s = bench.now_s + 2 * LOOKUP_S
    while P0 in bench.waiting and bench.now_s < ends_s:
        bench.turn(0.5)
        bench.answer(P0)
    assert P0 not in bench.waiting
    assert P1 in bench.waiting


def test_an_answer_of_before_the_last_revoke_holds_nothing_up(bench: Bench) -> None:
    """The partition comes again: the first answer since then is acted upon at once."""
    bench.silent = {P0, P1}
    bench.wait(P0, P1)
    for _ in range(20):
        bench.answer(P0)
        bench.turn(AGAIN_S_MAX)
    del bench.waiting[P0]
    bench.owned.logs.forget(P0)
    bench.now_s += 1.0
    bench.waiting.note({P0: "silent"}, bench.now_s)
    bench.silent = {P1}
    bench.turn()
    bench.answer(P0)
    bench.turn()
    assert P0 not in bench.waiting


def test_tries_that_fail_leave_time_to_read(bench: Bench) -> None:
    """Leaders answer, the group's coordinator does not: answers alone must not fill the time with tries."""
    bench.silent = {P0}
    bench.wait(P0)
    while bench.now_s < 300.0:
        bench.turn(0.5)
        bench.answer(P0)
    assert len(bench.tries) * LOOKUP_S < 60.0


def test_a_try_that_helped_ends_the_back_off(bench: Bench) -> None:
    """Those that still wait are asked about again as if they had just begun to."""
    bench.silent = {P0, P1}
    bench.wait(P0, P1)
    for _ in range(20):
        bench.turn(AGAIN_S_MAX)
    bench.silent = set()
    bench.turn(AGAIN_S_MAX)
    bench.silent = {P1}
    bench.waiting.note({P1: "silent"}, bench.now_s)
    tries = len(bench.tries)
    bench.turn(AGAIN_S)
    assert len(bench.tries) == tries + 1


def test_an_eager_repair_keeps_those_that_wait(bench: Bench) -> None:
    """Its assign is the whole assignment: a partition that it left out could not be sought."""
    bench.waiting.note({P1: "silent"}, 0.0)
    given: list[KafkaPartition] = []
    consumer: Any = SimpleNamespace(assign=given.extend)
    context: Any = SimpleNamespace(settings=SimpleNamespace(is_cooperative=False), owned=bench.owned)
    assign_anew(consumer, context, [])
    assert [(p.partition, p.offset) for p in given] == [(1, OFFSET_BEGINNING)]
