"""When a run has caught up: by positions and the broker's own ends, never by silence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ehkafka.intake.caught_up import (
    STANDBY_S,
    UNKNOWN_S,
    Blocker,
    CatchingUp,
    CaughtUp,
    PartitionState,
    Unsettled,
    WaitingKey,
)
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
HELD = WaitingKey(3, b"k", "on hold: no luck")


def at(partition: TopicPartition = P0, **changes: Any) -> PartitionState:
    """Return a partition that is done at 10."""
    done: dict[str, Any] = {"end": 10, "received_next": 10, "watermark": 10, "committed": 10}
    return PartitionState(partition=partition, **done | changes)


def judged(*states: PartitionState, run: CatchingUp | None = None, now_s: float = 0.0, **how: bool) -> Any:
    """Return how a run ends that stands so."""
    how = {"is_settled": True, "is_blind": False} | how
    return (run or CatchingUp(60.0)).judge(states, now_s, **how)


HELD_STATE = at(watermark=3, committed=3, waiting=[HELD])


@pytest.mark.parametrize(
    "done",
    [
        at(),
        at(received_next=15, watermark=12, committed=11, runs=False),
        at(end=0, received_next=None, watermark=None, committed=None),
        at(end=5, begin=5, received_next=None, watermark=None, committed=None),
        at(end=5, received_next=5, watermark=5, committed=5, is_paused=True),
        at(received_next=7, watermark=7, committed=7, has_no_tail=True),
    ],
    ids=["at its end", "beyond it", "empty", "emptied by retention", "paused at its end", "no record left"],
)
def test_a_partition_whose_position_has_passed_its_end_is_done(done: PartitionState) -> None:
    """What came since the start does not count, and an empty log has nothing to commit."""
    assert judged(done) == CaughtUp()
    assert judged(done, is_blind=True) == CaughtUp()


@pytest.mark.parametrize(
    "left",
    [
        at(end=None),
        at(received_next=9, watermark=9, committed=9),
        at(watermark=9, committed=9, runs=True),
        at(end=10, received_next=None, watermark=None, committed=None),
        at(committed=9),
        at(committed=None),
        HELD_STATE,
        at(received_next=25, watermark=25, committed=25, is_in_log=False),
        at(received_next=7, watermark=6, committed=6, runs=True, has_no_tail=True),
    ],
    ids=[
        "end unknown",
        "not received",
        "runs",
        "nothing yet",
        "not committed",
        "no commit",
        "held",
        "beyond",
        "runs before an empty tail",
    ],
)
def test_a_partition_that_is_short_of_its_end_keeps_the_run(left: PartitionState) -> None:
    """Though all others are done, and whether brokers throttle or not."""
    assert judged(at(P1), left) is None
    assert judged(at(P1), left, is_blind=True) is None


@pytest.mark.parametrize(
    ("unknown", "why"),
    [
        (at(end=None), "the broker does not report where its log ends"),
        (at(end=None, received_next=None, watermark=None, committed=None, unplaced="no leader"), "no leader"),
    ],
    ids=["end", "begin"],
)
def test_a_partition_of_which_nothing_is_known_for_long_is_named(unknown: PartitionState, why: str) -> None:
    """Its leader is dead: once all else is done, and others answer. While none does, it is waited for."""
    run, stuck = CatchingUp(60.0), Unsettled((Blocker(P0, None, None, why),))
    busy = at(P1, received_next=7, watermark=6, runs=True)
    assert judged(unknown, busy, run=run) is None
    assert judged(unknown, busy, run=run, now_s=100.0) is None
    assert judged(unknown, at(P1), run=run, now_s=101.0) == stuck
    assert judged(unknown, at(P1), run=run, now_s=102.0, is_blind=True) is None
    assert judged(unknown, at(P1), run=run, now_s=162.0) is None
    assert judged(unknown, at(P1), run=run, now_s=163.0) == stuck
    # However short the time is that records may wait: the questions lie further apart.
    run = CatchingUp(1.0)
    for now_s in (0.0, UNKNOWN_S):
        assert judged(unknown, run=run, now_s=now_s) is None
    assert judged(unknown, run=run, now_s=UNKNOWN_S + 1.0) is not None


def test_only_a_commit_is_missing() -> None:
    """It is asked for; when none is acknowledged for long, the stop's own last commit says what is wrong."""
    run = CatchingUp(60.0)
    assert judged(at(runs=True, watermark=9), run=run) is None
    assert not run.wants_commit
    assert judged(at(committed=9), run=run, now_s=1.0) is None
    assert run.wants_commit
    assert judged(at(committed=9), run=run, now_s=61.0) is None
    assert judged(at(committed=9), run=run, now_s=62.0) == CaughtUp()


def test_a_record_that_waits_is_named_when_its_time_is_over_and_all_else_is_done() -> None:
    """Not before: what else there is to do is done first, however long the record has waited."""
    run = CatchingUp(5.0)
    busy = at(P1, received_next=7, watermark=6, runs=True)
    assert judged(HELD_STATE, busy, run=run) is None
    assert judged(HELD_STATE, busy, run=run, now_s=100.0) is None
    assert judged(HELD_STATE, at(P1), run=run, now_s=100.5) == Unsettled((Blocker(P0, *HELD),))


def test_a_retry_that_comes_in_time_is_waited_for() -> None:
    """While it runs the partition goes on, and a first wait counts from its own beginning."""
    run = CatchingUp(5.0)
    other = HELD_STATE.waiting[0]._replace(offset=4)
    for now_s in (0.0, 4.0, 5.0):
        assert judged(HELD_STATE, run=run, now_s=now_s) is None
    both = at(watermark=3, waiting=[HELD, other])
    assert judged(both, run=run, now_s=6.0) is None
    assert judged(at(watermark=3, runs=True), run=run, now_s=11.5) is None
    assert judged(both, run=run, now_s=12.0) == Unsettled((Blocker(P0, *HELD), Blocker(P0, *other)))
    assert judged(at(), run=CatchingUp(5.0), now_s=12.0) == CaughtUp()


def test_a_record_that_fails_for_ever_does_not_keep_the_run_for_ever() -> None:
    """Each of its waits is short: the first one counts, until the record has an outcome."""
    run = CatchingUp(5.0)
    for now_s in range(6):
        waits = HELD_STATE if now_s % 2 == 0 else at(watermark=3, runs=True)
        assert judged(waits, run=run, now_s=float(now_s)) is None
    assert isinstance(judged(HELD_STATE, run=run, now_s=6.0), Unsettled)
    judged(at(watermark=4, runs=True), run=run, now_s=7.0)
    assert judged(HELD_STATE, run=run, now_s=12.0) is None  # another one at the same offset


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"is_paused": True}, "the partition is paused"),
        ({}, "no record from offset 5 on arrives, although the log ends at 10"),
        ({"end": 3, "is_in_log": False}, "its position 5 is beyond the end of its log"),
    ],
)
def test_a_partition_of_which_nothing_comes_is_named(how: dict[str, Any], why: str) -> None:
    """The time begins anew with each record. Where it stands still, another client reads there first."""
    run = CatchingUp(5.0)
    silent, moved = (at(received_next=next_, watermark=next_, committed=next_, **how) for next_ in (4, 5))
    for now_s in (0.0, 5.0):
        assert judged(silent, run=run, now_s=now_s) is None
    for now_s in (5.5, 10.0):
        assert judged(moved, run=run, now_s=now_s) is None
    assert judged(replace(moved, is_unread=True), run=run, now_s=10.6) is None
    assert judged(moved, run=run, now_s=10.6) == Unsettled((Blocker(P0, None, None, why),))


def test_silence_proves_nothing_while_brokers_throttle() -> None:
    """Neither that nothing comes any more, nor that nothing is there; the time begins when they do not."""
    run = CatchingUp(5.0)
    silent = at(received_next=4, watermark=4, committed=4)
    for now_s in (0.0, 50.0, 100.0):
        assert judged(silent, run=run, now_s=now_s, is_blind=True) is None
    assert judged(silent, run=run, now_s=105.0) is None
    assert judged(silent, run=run, now_s=105.1) is not None


def test_a_standby_ends_after_a_while_of_a_settled_group() -> None:
    """A first assignment may be empty, and a group that forms anew begins the wait anew."""
    run = CatchingUp(60.0)
    assert judged(run=run) is None
    assert judged(run=run, now_s=STANDBY_S - 1, is_settled=True) is None
    assert judged(run=run, now_s=STANDBY_S, is_settled=False) is None
    assert judged(run=run, now_s=STANDBY_S + 1) is None
    assert judged(at(runs=True, watermark=1), run=run, now_s=STANDBY_S + 2) is None
    assert judged(run=run, now_s=STANDBY_S + 3) is None
    assert judged(run=run, now_s=2 * STANDBY_S + 2) is None
    assert judged(run=run, now_s=2 * STANDBY_S + 3) == CaughtUp(is_standby=True)


def test_what_is_left_counts_up_to_the_ends() -> None:
    """Of what is not done, as far as the ends are known."""
    states = [at(watermark=4), at(P1, end=None), at(TopicPartition("t", 2))]
    assert CatchingUp(60.0).left_records(states) == 6
