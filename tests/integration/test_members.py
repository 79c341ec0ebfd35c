from __future__ import annotations

import itertools
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException

from ehkafka.events import CommitFailed, PartitionRevoked
from tests.kit.checker import history_event as events
from tests.kit.checker.history_file import read_history
from tests.kit.events import Events
from tests.kit.stage import QUICK_GROUP
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.broker

# A short backlog: what a slow machine lets pile up on the broker must not all be drained at a stop.
BACKLOG = ("--setting", "backlog_records_max=2000")
WORK = ("--handler-ms", "0-5", "--setting", "commit_interval_s=0.5", *BACKLOG)
DRAIN_S = 20.0
STORM_RECORDS = 100_000 if os.environ.get("EHKAFKA_LONG") == "1" else 20_000
PROGRESS_S = 30.0
# How a process ends whose SIGTERM comes before the app takes signals, and while the app reaches the broker.
UNBORN_EXIT_CODES = (-signal.SIGTERM, 130)


def test_sigterm_under_load_repeats_nothing(stage: Any) -> None:
    """SIGTERM under load, three times: exit code 0 within the drain's time, and nothing is repeated."""
    load = stage.load(2000.0)
    load.start()
    member = stage.member("member", *WORK, "--setting", f"stop_s={DRAIN_S:g}")
    for round_number in range(3):
        member.start()
        wait_until(member.assigned, lambda: f"the member has partitions\n{stage.logs()}")
        time.sleep(0.5 + 0.1 * round_number)
        began_s = unstolen_s()
        member.terminate()
        assert member.wait(DRAIN_S + 10.0) == 0, stage.logs()
        assert unstolen_s() - began_s < DRAIN_S + 1.0
    member.start()
    load.stop()
    stage.wait_until_committed(load.ends)
    stage.stop_members(timeout_s=DRAIN_S + 1.0)
    assert stage.judged(repeats=False).processes == 4


def test_members_that_stop_at_once_repeat_nothing(stage: Any) -> None:
    """Their drains end one after the other, and Kafka takes the last commit of each in mid-rebalance."""
    dice, load, seen = random.Random(7), stage.load(), Events()

    def member(most_s: float) -> Any:
        # All leave by themselves, so none waits for a session's end.
        options: Any = {"commit_interval_s": 60.0, "consumer": {"session.timeout.ms": 30_000}}
        app = stage.app(lambda _record: time.sleep(dice.uniform(0.0, most_s)), **options)
        app.add_hook(seen)
        app.start()
        wait_until(lambda: app.snapshot().partitions)
        return app

    members = [member(most_s) for most_s in (0.1, 1.0, 2.0)]
    wait_until(lambda: sorted(len(app.snapshot().partitions) for app in members) == [2, 3, 3])
    load.produce(2000)
    wait_until(lambda: all(app.snapshot().finished_records > 20 for app in members))
    seen.clear()
    with ThreadPoolExecutor(len(members)) as pool:
        assert list(pool.map(lambda app: app.stop(timeout_s=DRAIN_S), members)) == [None] * 3
    # The quickest left; the others had to give theirs back before they had finished.
    assert {one.reason for one in seen.of(PartitionRevoked)} == {"revoked", "stopped"}
    assert seen.of(CommitFailed) == []
    stage.app().start()
    stage.wait_until_committed(load.ends)
    stage.stop_apps()
    stage.judged(repeats=False)


def test_a_static_member_restarts_without_a_rebalance(stage: Any) -> None:
    """With an instance id, a restart within the session time-out moves no partition."""
    load = stage.load(1000.0)
    # Longer than a process takes to start on a busy machine.
    session = {"session.timeout.ms": 30_000}
    restarted, other = (
        stage.member(name, *WORK, "--instance-id", name, consumer=session) for name in ("restarted", "other")
    )
    for member in (restarted, other):
        member.start()
    wait_until(lambda: len(restarted.assigned()) == len(other.assigned()) == 4, stage.logs)
    load.start()
    mine, epochs = set(restarted.assigned()), other.count(events.Assigned, events.Revoked)
    for _ in range(2):
        time.sleep(0.5)
        stage.stop_members(restarted, timeout_s=DRAIN_S)
        restarted.start()
        wait_until(lambda: set(restarted.assigned()) == mine, stage.logs)
    load.stop()
    stage.wait_until_committed(load.ends)
    assert other.count(events.Assigned, events.Revoked) == epochs
    stage.stop_members(timeout_s=DRAIN_S + 1.0)
    stage.judged(repeats=False)


def test_a_plain_client_takes_over_from_an_app_and_back_without_repeats(stage: Any) -> None:
    """Both in one group: a rebalance and a close in each direction lose nothing and repeat nothing."""
    load = stage.load(1000.0)
    load.start()
    app = stage.app(lambda _record: time.sleep(0.002), consumer=QUICK_GROUP, commit_interval_s=0.5)
    app.start()
    wait_until(lambda: len(app.snapshot().partitions) == 8, "the app has all")
    given = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0, **QUICK_GROUP}
    plain = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.group, **given})
    handled: list[tuple[Any, Any]] = []

    def commit(consumer: Consumer, _partitions: object) -> None:
        with suppress(KafkaException):  # nothing is new
            consumer.commit(asynchronous=False)

    def handle() -> None:
        if (message := plain.poll(0.1)) is not None:
            assert message.error() is None
            handled.append((message.partition(), message.offset()))

    plain.subscribe([stage.topic], on_revoke=commit)
    wait_until(lambda: len(handled) > 500, "the plain client has records", meanwhile=handle)
    app.stop()
    wait_until(lambda: len({partition for partition, _ in handled}) == 8, "it has all", meanwhile=handle)
    again = stage.app(consumer=QUICK_GROUP, commit_interval_s=0.5)
    again.start()
    wait_until(lambda: again.snapshot().partitions, "an app joins", meanwhile=handle)
    plain.close()
    load.stop()
    stage.wait_until_committed(load.ends)
    stage.stop_apps()
    finished = [e for memory in stage.memories for e in memory.events if isinstance(e, events.Finished)]
    handled += [(one.partition.partition, one.offset) for one in finished]
    assert sorted(handled) == [(partition, n) for partition in range(8) for n in range(load.ends[partition])]


@pytest.mark.timeout(600)
def test_a_storm_of_joins_and_leaves_loses_nothing(stage: Any) -> None:
    """Members join and leave at random: all is seen, in order, at most 1 % repeated, no standstill."""
    dice = random.Random(6)
    load = stage.load(2000.0)
    load.start()
    members = [stage.member(f"member-{number}", *WORK) for number in range(4)]
    members[0].start()
    wait_until(members[0].assigned, stage.logs)
    staying = {members[0]}
    while load.count < STORM_RECORDS:
        idle = [member for member in members if not member.is_running]
        if idle and (len(staying) == 1 or dice.random() < 0.5):
            comer = dice.choice(idle)
            comer.start()
            staying.add(comer)
        elif len(staying) > 1:
            leaver = dice.choice(sorted(staying, key=lambda member: member.name))
            leaver.terminate()
            staying.remove(leaver)
        time.sleep(dice.uniform(0.1, 0.8))
    load.stop()
    # Who came last may still be starting, and then SIGTERM would end it in another way.
    wait_until(lambda: all(member.assigned() for member in staying), stage.logs)
    stage.wait_until_committed(load.ends)
    stage.stop_members(*staying, timeout_s=DRAIN_S + 1.0)
    for member in members:
        member.close()
    for member in members:
        for path, code in zip(member.histories, member.earlier_exit_codes, strict=False):
            # Only who has done nothing may end like that: from the broker's answer on, a stop ends with 0.
            unborn = code in UNBORN_EXIT_CODES and not any(
                isinstance(e, events.Assigned) for e in read_history([path])
            )
            assert code == 0 or unborn, stage.logs()
    paths = [path for member in members for path in member.histories]
    verdict = stage.judged()
    assert verdict.produced >= STORM_RECORDS
    assert verdict.duplicate_share <= 0.01, verdict.report()
    ends_ns = [e.at_ns for e in read_history(paths) if isinstance(e, events.Finished)]
    assert longest_break_s(ends_ns) < PROGRESS_S


def longest_break_s(times_ns: Iterable[int]) -> float:
    """Return the longest time between two neighbours."""
    return max(later - earlier for earlier, later in itertools.pairwise(times_ns)) / 1e9
