"""Row 35: records in streams, late lanes and batches of chunks, while members are killed, stop and come.

No history is written, so that millions can be judged: each record says which one of its key came before, a
file shared by all processes says which have finished (`tests.kit.marks`), and what is committed is compared
with it all the time. Quick by default; `scripts/faults --row 35 --records 10000000` runs so many each way.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.kit.marks import Marks
from tests.kit.processes import MemberProcess
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

MEMBER = Path(__file__).with_name("ways_member.py")
VALUE = runpy.run_path(str(MEMBER))["VALUE"]
WAYS = ("streams", "late-lanes", "batches")
RECORDS = int(os.environ.get("EHKAFKA_WAYS_RECORDS", "0"))
IS_LONG = RECORDS > 0
PARTITIONS = 4
MEMBERS = 3
# For each partition; a few of them come again and again.
KEYS = 5_000
HOT_KEYS = 5
HOT_SHARE = 0.03
# What stands in the log and is not committed: the broker keeps it, and so do the members.
LAG_RECORDS = 100_000 if IS_LONG else 5_000
PERIOD_S = 10.0 if IS_LONG else 2.0
SESSION_MS = 6_000 if IS_LONG else 3_000
SAMPLE_S = 0.2
STOP_S = 60.0
# Members that start, fail and take keys from each other are to leave most records to the way itself. In a
# short run they start for a good part of it.
SHARE_MIN = 0.5 if IS_LONG else 0.25


class Load:
    """Produces records whose keys come at random, each with what its key had before; on its own thread."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        records: int,
        *,
        committed: Callable[[], int],
        may_end: Callable[[], bool],
    ) -> None:
        """`committed` tells how many are; the last third waits until `may_end`."""
        self.ends = [0] * PARTITIONS
        self._topic = topic
        self._records = records
        self._committed = committed
        self._may_end = may_end
        self._dice = random.Random(35)
        self._last: dict[tuple[int, bytes], int] = {}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, whether everything is produced or not."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set() and (left := self._records - sum(self.ends)):
            room = LAG_RECORDS - (sum(self.ends) - self._committed())
            if left <= self._records // 3 and not self._may_end():
                room = 0
            for _ in range(min(left, room, 1_000)):
                self._produce()
            if room <= 0:
                time.sleep(SAMPLE_S)
        assert not self._producer.flush(STOP_S)

    def _produce(self) -> None:
        dice = self._dice
        partition = dice.randrange(PARTITIONS)
        key = b"k%d" % dice.randrange(HOT_KEYS if dice.random() < HOT_SHARE else KEYS)
        # The only producer, and it keeps the order: the offset is known before.
        offset = self.ends[partition]
        value = VALUE.pack(offset, self._last.get((partition, key), -1))
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition)
                break
            except BufferError:
                self._producer.poll(SAMPLE_S)
        self._producer.poll(0)
        self._last[partition, key] = offset
        self.ends[partition] += 1


class Watch:
    """Compares what is committed with what has finished, all the time."""

    def __init__(self, bootstrap: str, group: str, topic: str, marks: Marks) -> None:
        self._client = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        self._topic = topic
        self._marks = marks
        # How far each partition is committed, and what a commit has passed too early.
        self.committed = [0] * PARTITIONS
        self.premature: list[str] = []

    def sample(self) -> None:
        """Ask once, and judge. What is read was committed before, so it has finished before."""
        asked = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        try:
            found = self._client.committed(asked, timeout=10.0)
        except KafkaException:  # a coordinator that is busy
            return
        for one in found:
            number, before = one.partition, self.committed[one.partition]
            if one.offset <= before:
                continue
            early = self._marks.first_unfinished(number, before, one.offset)
            if early is not None:
                self.premature.append(f"{number}: {one.offset} is committed, and {early} has not finished")
            self.committed[number] = one.offset

    def close(self) -> None:
        """Let go of the client."""
        self._client.close()


class Crew:
    """Members that come, stop in good order and are killed, one of the three all the time."""

    def __init__(self, stage: Any, members: list[MemberProcess]) -> None:
        self._stage = stage
        self.members = members
        self.kills = self.stops = 0
        self._dice = random.Random(35)
        self._next_s = time.monotonic() + PERIOD_S

    def act(self) -> None:
        """Let one of them go as it is time, and come again."""
        if time.monotonic() < self._next_s:
            return
        # Who has not reported yet is still starting, and neither dies nor stops in earnest.
        if not (up := self.up()):
            return
        member = self._dice.choice(up)
        if not self.kills or (self.stops and self._dice.random() < 2 / 3):
            member.kill()
            self.kills += 1
        else:
            member.terminate()
            assert member.wait(STOP_S) == 0, self._stage.logs()
            self.stops += 1
        member.start()
        self._next_s = time.monotonic() + PERIOD_S

    def up(self) -> list[MemberProcess]:
        """Return the members that run."""
        return [member for member in self.members if member.histories[-1].stat().st_size]

    def counts(self) -> tuple[int, int]:
        """Return how many records all processes have finished, and how many of those in the way."""
        last = [path.read_text().splitlines() for member in self.members for path in member.histories]
        found = [json.loads(lines[-1]) for lines in last if lines]
        return sum(one["finished"] for one in found), sum(one["in_way"] for one in found)


def show(way: str, done: int, records: int, crew: Crew, began_s: float) -> None:
    """Show how it goes: on a terminal always the same line."""
    took_s = time.monotonic() - began_s
    filled = 30 * done // records
    begin, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")
    sys.stderr.write(
        f"{begin}{way:10} {'█' * filled:░<30} {done:,}/{records:,} records, {crew.kills} kills, "
        f"{crew.stops} stops, {done / took_s:,.0f}/s{end}"
    )
    sys.stderr.flush()


@pytest.mark.timeout(300 + RECORDS / 200)
@pytest.mark.parametrize("way", WAYS)
def test_row_35_no_way_loses_overtakes_or_commits_early(
    kafka: KafkaBroker, stage_on: Callable[..., Any], way: str
) -> None:
    """Everything finishes, each after the one before it of its key, and no commit passes what has not."""
    records = RECORDS or 8_000
    stage = stage_on(kafka, PARTITIONS)
    path = stage.directory / f"{way}.marks"
    marks = Marks(path, PARTITIONS, records)
    arguments = ["--way", way, "--bootstrap", kafka.bootstrap, "--group", stage.group]
    arguments += ["--topic", stage.topic, "--marks", str(path)]
    arguments += ["--partitions", str(PARTITIONS), "--records", str(records)]
    arguments += ["--consumer", f"session.timeout.ms={SESSION_MS}", "--consumer", "heartbeat.interval.ms=300"]
    stage.members += [
        MemberProcess(
            MEMBER, arguments, name=f"{way}-{number}", directory=stage.directory, witness=stage.witness
        )
        for number in range(MEMBERS)
    ]
    crew = Crew(stage, stage.members)
    watch = Watch(kafka.bootstrap, stage.group, stage.topic, marks)
    load = Load(
        kafka.bootstrap,
        stage.topic,
        records,
        committed=lambda: sum(watch.committed),
        may_end=lambda: crew.kills > 0 and crew.stops > 0,
    )
    began_s = shown_s = time.monotonic()
    for member in crew.members:
        member.start()
    load.start()
    try:
        while sum(watch.committed) < records:
            crew.act()
            watch.sample()
            assert not watch.premature, watch.premature
            assert all(member.is_running for member in crew.members), stage.logs()
            if IS_LONG and time.monotonic() - shown_s > (1.0 if sys.stderr.isatty() else 30.0):
                shown_s = time.monotonic()
                show(way, sum(watch.committed), records, crew, began_s)
            time.sleep(SAMPLE_S)
    finally:
        load.stop()
        watch.close()
    wait_until(lambda: len(crew.up()) == MEMBERS, stage.logs, STOP_S)
    for member in crew.members:
        member.terminate()
    assert [member.wait(STOP_S) for member in crew.members] == [0] * MEMBERS, stage.logs()
    finished, in_way = crew.counts()
    repeated = sum(marks.repeated(number, end) for number, end in enumerate(load.ends))
    unfinished = [marks.first_unfinished(number, 0, end) for number, end in enumerate(load.ends)]
    show(way, records, records, crew, began_s)
    sys.stderr.write(
        f"\n{way}: {repeated:,} repeated, {in_way / finished:.0%} of {finished:,} went this way\n"
    )
    problems = Path(f"{path}.problems")
    assert not problems.read_text(), problems.read_text()[:2_000]
    assert unfinished == [None] * PARTITIONS
    assert in_way > SHARE_MIN * finished, f"{in_way} of {finished}"
    marks.close()
