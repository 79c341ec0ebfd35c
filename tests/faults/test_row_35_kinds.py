"""Row 35: each kind of worker under full load, while members are killed, stop in good order and come again.

No history is written, so that millions can be judged: each record says which one of its key came before, a
file shared by all processes says which have finished (`tests.kit.marks`), and what is committed is compared
with it all the time.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ehkafka.errors import UnfinishedError
from tests.faults.kinds_handlers import KEYS, VALUE
from tests.kit.fault_runs import SCALE, dice_of
from tests.kit.marks import Marks
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.processes import MemberProcess

pytestmark = pytest.mark.broker

# Each, and how much of its records at least must have been begun with unread keys: hundreds, also on a busy
# machine, where members fall behind less far.
KINDS = {"quick": 0.02, "slow": 0.0, "tasks": 0.0, "batches": 0.0, "processes": 0.0}
PARTITIONS = 4
MEMBERS = 3
KILLS = 2 * SCALE if SCALE > 1 else 1
# For each partition; a few keys come again and again.
HOT_KEYS = 5
HOT_SHARE = 0.03
# What is in the log and not committed: the broker keeps it, and so do the members. Worker processes have no
# more than half a second of work at hand, and each record costs them more.
LAG_RECORDS = {"processes": 6_000}
LAG_RECORDS_OF_OTHERS = 20_000
# So many fit into each partition's marks.
RECORDS_MAX = 500_000
# Between commits of all partitions and the next kill.
PERIOD_S = 0.5
SESSION_MS = 2_000
SAMPLE_S = 0.1
STOP_S = 60.0


class Load:
    """Produces records whose keys come at random, each with what its key had before; on its own thread."""

    def __init__(
        self, bootstrap: str, topic: str, records_max: int, lag_records: int, committed: list[int]
    ) -> None:
        """`committed`: how far each partition is, as others find out."""
        self.ends = [0] * PARTITIONS
        self._topic = topic
        self._records_max = records_max - lag_records
        self._lag_records = lag_records
        self._committed = committed
        self._dice = dice_of(35)
        self._last: dict[tuple[int, bytes], int] = {}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; all that `ends` counts is with the broker."""
        self._stopping.set()
        self._thread.join()
        assert not self._producer.flush(STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            room = self._lag_records - (sum(self.ends) - sum(self._committed))
            if room <= 0 or max(self.ends) > self._records_max:
                self._stopping.wait(SAMPLE_S)
                continue
            for _ in range(min(room, 1_000)):
                self._produce()

    def _produce(self) -> None:
        dice = self._dice
        partition = dice.randrange(PARTITIONS)
        key = b"k%d" % dice.randrange(HOT_KEYS if dice.random() < HOT_SHARE else KEYS)
        # The only producer, and it keeps the order: the offset is known before.
        offset = self.ends[partition]
        # The lag is smaller than the producer's queue.
        self._producer.produce(
            self._topic, VALUE.pack(offset, self._last.get((partition, key), -1)), key, partition
        )
        self._producer.poll(0)
        self._last[partition, key] = offset
        self.ends[partition] += 1


class Watch:
    """Compares what is committed with what has finished, all the time."""

    def __init__(self, bootstrap: str, group: str, topic: str, marks: Marks) -> None:
        self._client = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        self._topic = topic
        self._marks = marks
        self.committed = [0] * PARTITIONS

    def sample(self) -> None:
        """Ask once, and judge. What is read was committed before, so it has finished before."""
        asked = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        try:
            found = self._client.committed(asked, timeout=10.0)
        except KafkaException:  # a coordinator that is busy
            return
        for number, end in ((one.partition, one.offset) for one in found):
            if end > (before := self.committed[number]):
                early = self._marks.first_unfinished(number, before, end)
                assert early is None, f"FACT: {number}@{end} is committed, and {early} has not finished"
                self.committed[number] = end

    def close(self) -> None:
        """Let go of the client."""
        self._client.close()


class Crew:
    """Members that come, stop in good order and are killed, one of the three all the time."""

    def __init__(self, members: list[MemberProcess], kills: int, committed: list[int]) -> None:
        """`committed`: how far each partition is, as others find out."""
        self._members = members
        self._committed = committed
        self._before = list(committed)
        self._dice = dice_of(35)
        # What is still to be done, in any order.
        self._left = ["kill"] * kills + ["stop"] * max(1, kills // 2)
        self._dice.shuffle(self._left)
        self._next_s = 0.0
        for member in members:
            member.start()

    def act(self) -> bool:
        """Let one of them go once all partitions move, and come again; tell whether there is more to do."""
        now_s = time.monotonic()
        if any(end <= before for end, before in zip(self._committed, self._before, strict=True)):
            self._next_s = now_s + PERIOD_S
        elif now_s >= self._next_s:
            if not self._left:
                return False
            # A member that is still starting neither dies nor stops in earnest.
            if not (up := self.up()):
                return True
            member = self._dice.choice(up)
            if self._left.pop() == "kill":
                member.kill()
            else:
                member.terminate()
                # It ends with another code where it could not save what is finished above a record that waits
                # for its retry: the commit has no room for it. Its records are handled again then.
                assert member.wait(STOP_S) in {0, UnfinishedError.exit_code}, member.log_tail()
            member.start()
            self._before = list(self._committed)
        return True

    def up(self) -> list[MemberProcess]:
        """Return the members that run."""
        return [member for member in self._members if member.histories[-1].stat().st_size]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_row_35_no_kind_of_worker_loses_overtakes_or_commits_early(
    kafka: KafkaBroker, stage_on: Callable[..., Any], kind: str
) -> None:
    """All finish, each after the one before it of its key, one call of a key at a time, no commit early."""
    stage = stage_on(kafka, PARTITIONS)
    path, records_max = stage.directory / "marks", RECORDS_MAX * SCALE
    marks, unread = (Marks(Path(f"{path}{end}"), PARTITIONS, records_max) for end in ("", ".unread"))
    own = {"kind": kind, "marks": path, "partitions": PARTITIONS, "records": records_max}
    handlers = ["--handlers", "tests.faults.kinds_handlers", "--no-history"]
    handlers += [part for pair in own.items() for part in ("--own", "{}={}".format(*pair))]
    group = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
    for number in range(MEMBERS):
        stage.member(f"{kind}-{number}", *handlers, "--setting", "commit_interval_s=0.2", consumer=group)
    watch = Watch(kafka.bootstrap, stage.group, stage.topic, marks)
    crew = Crew(stage.members, KILLS, watch.committed)
    lag_records = LAG_RECORDS.get(kind, LAG_RECORDS_OF_OTHERS)
    load = Load(kafka.bootstrap, stage.topic, records_max, lag_records, watch.committed)
    try:
        while crew.act():
            watch.sample()
            assert all(member.is_running for member in stage.members), stage.logs()
            time.sleep(SAMPLE_S)
        load.stop()
        wait_until(lambda: watch.committed == load.ends, stage.logs, STOP_S, meanwhile=watch.sample)
    finally:
        load.stop()
        watch.close()
    wait_until(lambda: len(crew.up()) == MEMBERS, stage.logs, STOP_S)
    stage.stop_members(timeout_s=STOP_S)
    problems = Path(f"{path}.problems").read_text()
    assert not problems, f"FACT: {problems[:2_000]}"
    ends = list(enumerate(load.ends))
    repeated, records = sum(marks.repeated(*end) for end in ends), sum(load.ends)
    share = sum(unread.finished(*end) for end in ends) / records
    sys.stderr.write(f"{kind}: {records:,} records, {repeated:,} repeated, keys unread of {share:.0%}\n")
    assert share >= KINDS[kind]
