"""Children that are killed at random, while records fail and partitions are revoked, lost and assigned again.

What the handlers wrote down, each line with its time, is judged afterwards. A call whose process was killed
has no end of its own: it ended with its process.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ehkafka.errors import WorkerDiedError
from ehkafka.events import WorkerProcessDied
from ehkafka.headers.size import sizes_of
from ehkafka.lanes.finished import FinishedBefore
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch

SEEDS = int(os.environ.get("EHKAFKA_PROCESS_STRESS_SEEDS", "2"))
RECORDS = 1_000
PARTITIONS = 2
# A process ends a moment after it was killed; a child reports what it has finished now and then.
SOON_NS = 400_000_000


class Line(NamedTuple):
    """What a handler wrote down."""

    word: str
    partition: int
    offset: int
    key: str
    pid: int
    time_ns: int


class Stress:
    """One run."""

    def __init__(self, crew: Any, handlers: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.one = crew(3, function=handlers.under_stress)
        self.one.hub.inboxes.ending.end([self.one.epoch])
        keys = self.random.choice((4, 40, 400))
        self.log = {
            place: [(b"k%d" % self.random.randrange(keys), self._value()) for _ in range(RECORDS)]
            for place in range(PARTITIONS)
        }
        self.epochs: dict[int, Epoch] = {}
        self.sent = dict.fromkeys(self.log, 0)
        self.committed = dict.fromkeys(self.log, 0)
        self.ranges: dict[int, Any] = {}
        # Of each partition, when its epochs ended.
        self.ends: dict[int, list[int]] = defaultdict(list)
        self.killed: set[int] = set()
        self.turns = 0
        self._numbers = 1

    def _value(self) -> bytes:
        x = self.random.random()
        if x < 0.002:
            return b"kill once"
        if x < 0.02:
            return b"fail %d" % self.random.randint(1, 2)
        return b"sleep 0.05" if x < 0.025 else b"sleep 0.001" if x < 0.2 else b"x"

    def run(self) -> None:
        """Deliver, kill, revoke and lose until all of the log is finished."""
        for place in self.log:
            self.assign(place)
        self.one.wait(self.is_over, 120.0)

    def is_over(self) -> bool:
        """Do one random thing; tell whether everything has finished."""
        r = self.random
        for place in self.log:
            if r.random() < 0.5:
                self.deliver(place)
        self.turns += 1
        if (r.random() < 0.003 or self.turns == 20) and (pids := self.one.workers.pids):
            with suppress(ProcessLookupError):
                os.kill(pid := r.choice(pids), signal.SIGKILL)
                self.killed.add(pid)
        if r.random() < 0.006:
            places = r.sample(list(self.epochs), r.randint(1, len(self.epochs)))
            if r.random() < 0.5:
                self.drain(places)
            self.end(places)
            for place in places:
                self.assign(place)
        with self.one.hub.locked():
            return all(RECORDS in (self.epochs[p].watermark(), self.committed[p]) for p in self.log)

    def assign(self, place: int) -> None:
        """Begin an epoch where the last commit says."""
        self._numbers += 1
        before = FinishedBefore(self.ranges[place]) if self.ranges.get(place) else None
        with self.one.hub.locked() as inboxes:
            self.epochs[place] = inboxes.assign(
                TopicPartition("t", place), self._numbers, finished_before=before
            )
        self.sent[place] = self.committed[place]

    def deliver(self, place: int) -> None:
        """Hand over the next records of a partition."""
        first = self.sent[place]
        rows = self.log[place][first : first + self.random.randint(1, 60)]
        if not rows or self.one.hub.tally.backlog_records > 500:
            return
        batch = [SimulatedMessage("t", place, first + n, *row) for n, row in enumerate(rows)]
        part = self.epochs[place], batch, [message.key() for message in batch], (), sizes_of(batch)
        self.one.hub.receive([part])
        self.sent[place] += len(rows)

    def drain(self, places: list[int]) -> None:
        """Let what has begun end, as far as it does soon."""
        epochs = [self.epochs[place] for place in places]
        rounds = iter(range(self.random.randint(1, 60)))

        def is_drained() -> bool:
            with self.one.hub.locked() as inboxes:
                inboxes.ending.drain(epochs, lambda work: work.records < 20)
                return inboxes.ending.is_drained(epochs) or next(rounds, None) is None

        self.one.wait(is_drained)

    def end(self, places: list[int]) -> None:
        """Commit, and end these epochs."""
        with self.one.hub.locked() as inboxes:
            for place in places:
                extent = self.epochs[place].extent()
                if extent is not None:
                    assert extent.next_offset >= self.committed[place]
                    self.committed[place], self.ranges[place] = extent.next_offset, extent.finished()
            inboxes.ending.end([self.epochs[place] for place in places])
        for place in places:
            self.ends[place].append(time.monotonic_ns())

    # -- judging -------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Compare what ran with what is promised."""
        lines = sorted(
            (
                Line(word, int(p), int(o), key, int(pid), int(at))
                for word in ("begin", "failed", "done")
                for p, o, key, pid, at in self.one.lines(word)
            ),
            key=lambda line: line.time_ns,
        )
        self._judge_keys(lines)
        self._judge_deaths(lines)

    def _judge_keys(self, lines: list[Line]) -> None:
        running: dict[tuple[int, str], Line] = {}
        done: dict[tuple[int, int], Line] = {}
        rank = {}
        for place, rows in self.log.items():
            last: dict[str, int | None] = {}
            for offset, (key, _) in enumerate(rows):
                rank[place, offset] = last.get(key.decode())
                last[key.decode()] = offset
        dead = self._dead()
        for line in lines:
            name, at = (line.partition, line.key), (line.partition, line.offset)
            if line.word != "begin":
                assert running.pop(name)[1:5] == line[1:5], ("ends another's call", line)
                if line.word == "done":
                    done[at] = line
                continue
            if (other := running.get(name)) is not None:
                assert other.pid in dead, ("two at once", other, line)
            before = rank[at]
            assert before is None or (line.partition, before) in done, ("overtakes", line)
            if (first := done.get(at)) is not None:
                ended = [
                    end for end in self.ends[line.partition] if first.time_ns - SOON_NS < end < line.time_ns
                ]
                assert ended or first.pid in dead, ("twice", first, line)
            running[name] = line
        assert not [line for line in running.values() if line.pid not in dead], "a call has no end"
        assert len(done) == PARTITIONS * RECORDS, ("lost", PARTITIONS * RECORDS - len(done))

    def _judge_deaths(self, lines: list[Line]) -> None:
        """A death is charged to the record that the dead child ran, or was about to run after that one."""
        died = [(message, error) for message, error in self.one.failed if isinstance(error, WorkerDiedError)]
        for message, error in died:
            place = message.partition(), message.offset()
            own = [line for line in lines if line.pid == int(str(error).split()[2])]
            last = next((line[1:3] for line in reversed(own) if line.word == "begin"), place)
            assert place == last or self._may_begin(place, after=last, own=own), (
                "charged with another's death",
                place,
                own[-6:],
            )
        deaths = self.one.events.of(WorkerProcessDied)
        assert len(died) <= len(deaths)
        assert len({int(str(error).split()[2]) for _, error in died}) == len(died), "one death charged twice"

    def _may_begin(self, place: tuple[int, int], *, after: tuple[int, int], own: list[Line]) -> bool:
        """Tell whether a child with these lines had ended its last record and may have taken this one."""
        of_last = [line.word for line in own if line[1:3] == after]
        ended_ns = [line.time_ns for line in own if line[1:3] == place and line.word == "done"]
        is_again = any(end > ended_ns[-1] - SOON_NS for end in self.ends[place[0]]) if ended_ns else True
        return of_last[-1] != "begin" and is_again

    def _dead(self) -> set[int]:
        return {event.pid for event in self.one.events.of(WorkerProcessDied)} | self.killed


@pytest.mark.parametrize("seed", range(SEEDS))
def test_kills_failures_and_rebalances_lose_swap_and_double_nothing(
    crew: Any, handlers: Any, seed: int
) -> None:
    """None lost; none twice but what a death was charged with, or whose epoch ended; order per key."""
    run = Stress(crew, handlers, seed)
    run.run()
    assert run.killed
    run.judge()
    assert run.one.deaths == []
