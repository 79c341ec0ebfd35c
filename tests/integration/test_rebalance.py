from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.checker import history_event as events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import ehkafka
    from ehkafka.records import TopicPartition


pytestmark = pytest.mark.broker


def test_a_revoke_in_good_time_repeats_nothing(stage: Any, eventually: Callable[..., None]) -> None:
    """What a revoke finds started is finished and committed in it; the next owner repeats nothing."""
    load = stage.load()
    load.produce(20_000)
    # Then the rest goes fast.
    has_returned = threading.Event()
    # No commit but the ones of revokes and stops: a revoke that does not commit shows.
    first, second = (
        stage.app(
            lambda _record: time.sleep(0.0 if has_returned.is_set() else 0.005),
            drain_s=10.0,
            commit_interval_s=60.0,
        )
        for _ in range(2)
    )
    first.start()
    eventually(lambda: first.snapshot().finished_records > 200, "the first member works")
    second.start()
    eventually(lambda: second.snapshot().partitions, "the second member has partitions")
    # The first one says so behind its revoke, while the second one has them already.
    eventually(lambda: first.snapshot().returned_records > 0, "the revoke came before the end of the log")
    has_returned.set()
    stage.wait_until_worked_off(load)
    stage.stop_apps()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.duplicates == 0, verdict.report()
    acknowledged = [e for e in stage.memories[0].events if isinstance(e, events.CommitAcknowledged)]
    revoked = [e for e in stage.memories[0].events if isinstance(e, events.Revoked)]
    assert acknowledged[0].at_ns < revoked[0].at_ns, "the commit belongs into the revoke"


def test_a_revoke_without_time_for_what_lies_below_leaves_it_and_repeats_nothing(
    stage: Any, eventually: Callable[..., None]
) -> None:
    """Only what runs ends, within its own time; what is finished above goes along as ranges."""
    load = stage.load(keys=[b"hot", *(b"key-%d" % number for number in range(200))])
    load.produce(3000)
    # The hot key alone takes five times the budget: 500 records of 10 ms.
    first, second = (
        stage.app(lambda _record: time.sleep(0.01), drain_s=1.0, commit_interval_s=60.0) for _ in range(2)
    )
    first.start()
    eventually(lambda: first.snapshot().finished_records > 500, "the first member works")
    second.start()
    eventually(lambda: second.snapshot().partitions, "the second member has partitions")
    # The first one says so behind its revoke, while the second one has them already.
    eventually(lambda: first.snapshot().returned_records > 0, "the revoke came before the end of the log")
    stage.wait_until_worked_off(load)
    stage.stop_apps()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.duplicates == 0, verdict.report()


def test_a_handler_longer_than_the_drain_is_repeated_by_the_next_owner(
    stage: Any, eventually: Callable[..., None]
) -> None:
    """A revoke returns within its budget; the late result counts as stale and the record runs again."""
    load = stage.load()
    load.put(b"slow")
    load.produce(800)
    entered, release = threading.Event(), threading.Event()

    def slow_once(record: ehkafka.Record) -> None:
        if record.key() == b"slow" and not entered.is_set():
            entered.set()
            release.wait(30.0)

    first, second = (stage.app(slow_once, drain_s=0.5, commit_interval_s=0.2) for _ in range(2))
    first.start()
    eventually(lambda: first.snapshot().finished_records == 800, "one handler blocks, all others are done")
    began_s = time.monotonic()
    second.start()
    eventually(lambda: second.snapshot().partitions, "the second member has partitions")
    assert time.monotonic() - began_s < 10.0
    release.set()
    eventually(lambda: first.snapshot().stale_records == 1, "the late result is counted")
    stage.wait_until_committed(load.ends)
    stage.stop_apps()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.duplicates >= 1, "the late record was not repeated"


def test_nothing_is_committed_for_lost_partitions(stage: Any, eventually: Callable[..., None]) -> None:
    """A member over max.poll.interval loses its partitions, commits nothing for them and rejoins."""
    load = stage.load(500.0)
    late = stage.app(
        lambda _record: time.sleep(0.002), consumer={"session.timeout.ms": 1000, "max.poll.interval.ms": 1500}
    )
    late.start()
    load.start()
    eventually(lambda: late.snapshot().finished_records > 100, "the member works")
    other = stage.app(lambda _record: time.sleep(0.002))
    other.start()
    eventually(lambda: other.snapshot().partitions, "the other member has partitions")
    slept_from_ns = oversleep(late, 4.0)
    eventually(lambda: len(other.snapshot().partitions) == 8, "the other member has taken over")
    eventually(lambda: late.snapshot().counters.get("PartitionLost") == 4, "the member knows")
    eventually(lambda: len(late.snapshot().partitions) == 4, "the member is back")
    load.stop()
    stage.wait_until_committed(load.ends)
    stage.stop_apps()
    verdict = stage.verdict()
    history = stage.memories[0].events
    assert not verdict.violations, verdict.report()
    assert verdict.duplicates <= uncommitted_when_lost(history), verdict.report()
    lost = [e for e in history if isinstance(e, events.Revoked) and e.reason == "lost"]
    assert len(lost) == 4
    asked = [e for e in history if isinstance(e, events.CommitRequested)]
    # Not from the last turn with records on: a turn without any may commit, too, while the member is one.
    assert not [e for e in asked if slept_from_ns[0] < e.at_ns < lost[-1].at_ns]


def uncommitted_when_lost(history: Iterable[Any]) -> int:
    """Return how many records a member had received above its commits when it lost its partitions.

    The checker's own bound takes the new owner's commits for the old one's as long as the old one does
    not know that it has lost them.
    """
    received: dict[TopicPartition, set[int]] = {}
    total = 0
    for event in history:
        if isinstance(event, events.Assigned):
            received[event.partition] = set()
        elif isinstance(event, events.Received):
            received[event.partition].update(event.offsets)
        elif isinstance(event, events.CommitAcknowledged):
            for partition, next_offset in event.next_offsets.items():
                received[partition] = {offset for offset in received[partition] if offset >= next_offset}
        elif isinstance(event, events.Revoked) and event.reason == "lost":
            total += len(received[event.partition])
    return total


def oversleep(app: ehkafka.App, seconds: float) -> list[int]:
    """Keep an app's poll thread from polling, once; what is returned gets the time when that begins."""
    runtime: Any = app.current_run
    began_ns: list[int] = []
    check = runtime.loop._slow_check

    def sleep_once() -> None:
        runtime.loop._slow_check = check
        began_ns.append(time.monotonic_ns())
        time.sleep(seconds)

    runtime.loop._slow_check = sleep_once
    return began_ns


@contextlib.contextmanager
def not_polling(app: ehkafka.App) -> Iterator[None]:
    """Keep an app's poll thread from polling."""
    runtime: Any = app.current_run
    check, stands, goes_on = runtime.loop._slow_check, threading.Event(), threading.Event()

    def stand_still() -> None:
        stands.set()
        goes_on.wait()
        check()

    runtime.loop._slow_check = stand_still
    try:
        assert stands.wait(30.0)
        yield
    finally:
        runtime.loop._slow_check = check
        goes_on.set()


def test_cooperative_members_keep_what_stays(stage: Any, eventually: Callable[..., None]) -> None:
    """With cooperative-sticky, partitions that stay go on during the rebalance, without a repeat."""
    load = stage.load(1000.0)
    load.start()
    first, second = (
        stage.app(lambda _record: time.sleep(0.002), assignor="cooperative-sticky", commit_interval_s=0.3)
        for _ in range(2)
    )
    first.start()
    eventually(lambda: len(first.snapshot().partitions) == 8, "the first member has all")
    eventually(lambda: first.snapshot().finished_records > 500, "the first member works")
    second.start()
    with not_polling(second):
        eventually(lambda: len(first.snapshot().partitions) == 4, "the first member has given up half")
        # The rebalance stands still: the second member has not taken note of its first, empty assignment.
        before = first.snapshot().finished_records
        eventually(lambda: first.snapshot().finished_records > before + 500, "what stays goes on")
        assert not second.snapshot().partitions
    eventually(lambda: len(second.snapshot().partitions) == 4, "the second member has half")
    eventually(lambda: second.snapshot().finished_records > 500, "the second member works")
    load.stop()
    stage.wait_until_committed(load.ends)
    stage.stop_apps()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.duplicates == 0, verdict.report()
    history = stage.memories[0].events
    revoked = {e.partition for e in history if isinstance(e, events.Revoked) and e.reason == "revoked"}
    assigned = [e.partition for e in history if isinstance(e, events.Assigned)]
    kept = set(assigned) - revoked
    assert len(kept) == len(revoked) == 4
    assert len(assigned) == 8, "what stays is not assigned again"
