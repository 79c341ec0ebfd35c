"""Row 27: all four kinds of workers under a steady load, while members come, leave and are killed.

One key in twenty fails all the time, from the first record to the last, so that records always wait for a
retry and dead letters are written at any time; only then are they fixed.
Each kind has a topic and a group of its own, with an elder that stays and a visitor: every `period_s` it
comes, is killed, comes again, or stops in good order. Once the broker restarts, with its data and its port.
Quick by default; `scripts/faults --row 27 --minutes 20` runs it long, and draws what was sampled.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from operator import gt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faults.soak_handlers import is_failing, is_poison
from tests.kit.fault_runs import judge
from tests.kit.memory import slope_mb_per_hour, tree_mb
from tests.kit.topic_read import letters_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.checker.verdict import Verdict
    from tests.kit.processes import MemberProcess

pytestmark = pytest.mark.broker

KINDS = ("threads", "asyncio", "batches", "processes")
PARTITIONS = 8
MINUTES = float(os.environ.get("EHKAFKA_SOAK_MINUTES", "0"))
IS_LONG = MINUTES > 0
DURATION_S = 60 * MINUTES if IS_LONG else 10.0
PERIOD_S = 20.0 if IS_LONG else 2.0
# Records a second for each kind of worker.
RATE = 100.0
GROUP = {"session.timeout.ms": 6_000 if IS_LONG else 3_000, "heartbeat.interval.ms": 300}
# Of the whole app, shared by its partitions: what the most frequent key gets while the broker restarts fits.
PARKED = ("--setting", "parked_records_max=4000", "--setting", 'on_parked_full="dead_letter"')
# A kill comes every 80 s for each kind. In fewer minutes the broker's restart repeats too large a part.
REPEATED_SHARE_MAX, REPEATED_MINUTES_MIN = 0.01, 20.0
STOP_S = 30.0
SAMPLE_S = 1.0
# What a process loads and caches at first, or when the broker goes, is no growth: so much is left out.
WARM_UP_SHARE = 0.5
ACTIONS = ("come", "kill", "come", "leave")
# A long run is looked at in so many parts, of two minutes or more: in each of them letters were written.
PARTS = max(1, min(10, int(MINUTES / 2)))


@dataclass
class Crew:
    """One kind of worker: its topic, group and two members, and what was seen of them."""

    kind: str
    stage: Any
    elder: MemberProcess
    visitor: MemberProcess
    load: Any
    # Once it is there, no key fails.
    fixed: Path
    kills: int = 0
    leaves: int = 0
    # (seconds since the start, next_offsets committed, records produced, dead letters) and (seconds, the
    # elder's MB).
    progress: list[tuple[float, int, int, int]] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)

    def act(self, action: str) -> None:
        """Let the visitor come, leave in good order, or die."""
        if action == "come":
            self.visitor.start()
            return
        # However long it took to come in: who has nothing yet neither leaves nor dies in earnest.
        wait_until(self.visitor.assigned, self.stage.logs, STOP_S)
        if action == "kill":
            self.visitor.kill()
            self.kills += 1
        else:
            self.visitor.terminate()
            assert self.visitor.wait(STOP_S) == 0, self.stage.logs()
            self.leaves += 1

    @cached_property
    def judgement(self) -> Verdict:
        """What the checker says of all histories; once everything has stopped."""
        return self.stage.verdict()  # type: ignore[no-any-return]

    def verdict(self) -> Verdict:
        """As a stage is asked for it."""
        return self.judgement

    def slope_mb_per_hour(self, back_s: float) -> float | None:
        """How fast the elder's memory grew after its warm-up, and a period after the broker was back."""
        began_s = max(WARM_UP_SHARE * self.memory[-1][0], back_s + PERIOD_S)
        return slope_mb_per_hour([sample for sample in self.memory if sample[0] >= began_s])


class Sampler:
    """Looks at commits and memory once a second, on a thread of its own, while the broker answers or not."""

    def __init__(self, bootstrap: str, crews: list[Crew]) -> None:
        self._crews = crews
        self._stopping = threading.Event()
        self.began_s = time.monotonic()
        self._clients = {
            crew.kind: Consumer(
                {"bootstrap.servers": bootstrap, "group.id": crew.stage.group, "log_level": 0}
            )
            for crew in crews
        }
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, and its clients."""
        self._stopping.set()
        self._thread.join()
        for client in self._clients.values():
            client.close()

    def _run(self) -> None:
        shown_s = 0.0
        while not self._stopping.wait(SAMPLE_S):
            for crew in self._crews:
                self._sample(crew)
            at_s = time.monotonic() - self.began_s
            if IS_LONG and at_s - shown_s >= (1.0 if sys.stderr.isatty() else PERIOD_S):
                shown_s = at_s
                self._show(at_s)

    def _sample(self, crew: Crew) -> None:
        at_s = time.monotonic() - self.began_s
        crew.memory.append((at_s, tree_mb(crew.elder.pid)))
        asked = [TopicPartition(crew.stage.topic, number) for number in range(PARTITIONS)]
        try:
            found = self._clients[crew.kind].committed(asked, timeout=SAMPLE_S)
            dead = TopicPartition(f"{crew.stage.topic}.dead", 0)
            _, letters = self._clients[crew.kind].get_watermark_offsets(dead, timeout=SAMPLE_S)
        except KafkaException:  # while the broker is away there is nothing to see
            return
        committed = sum(max(one.offset, 0) for one in found)
        crew.progress.append((at_s, committed, crew.load.count, letters))

    def _show(self, at_s: float) -> None:
        """Show one line of how it goes: on a terminal always the same one."""
        each = [f"{100 * min(at_s / DURATION_S, 1):3.0f} %  {at_s:.0f}/{DURATION_S:.0f} s"]
        for crew in self._crews:
            lag = crew.progress[-1][2] - crew.progress[-1][1] if crew.progress else 0
            letters = crew.progress[-1][3] if crew.progress else 0
            each.append(
                f"{crew.kind} lag {lag} letters {letters} kills {crew.kills} {crew.memory[-1][1]:.0f} MB"
            )
        begin, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")
        sys.stderr.write(f"{begin}{'  '.join(each)}{end}")
        sys.stderr.flush()


def plan() -> list[tuple[float, str, str]]:
    """Return who does what when, in order; each kind's visitor is a quarter of a period behind the last."""
    steps = []
    for number, kind in enumerate(KINDS):
        turns = int((DURATION_S - PERIOD_S) / PERIOD_S)
        for turn in range(turns):
            at_s = PERIOD_S * (turn + 1 + number / len(KINDS))
            steps.append((at_s, kind, ACTIONS[turn % len(ACTIONS)]))
    # When all visitors have been killed, before the next ones come: no member starts while the broker is
    # away.
    return sorted([*steps, (PERIOD_S * (3 - 1 / (2 * len(KINDS))), "broker", "restart")])


def crews_on(broker: KafkaBroker, stage_on: Callable[..., Any]) -> list[Crew]:
    """Return a crew of each kind, with their topics; nothing runs yet."""
    crews = []
    for kind in KINDS:
        stage = stage_on(broker, PARTITIONS)
        broker.create_topic(f"{stage.topic}.dead", 1)
        fixed = stage.directory / f"{stage.topic}.fixed"
        arguments = ["--handlers", "tests.faults.soak_handlers", "--own", f"kind={kind}"]
        arguments += ["--own", f"fixed={fixed}", *PARKED]
        elder, visitor = (
            stage.member(f"{kind}-{name}", *arguments, consumer=GROUP) for name in ("elder", "visitor")
        )
        load = stage.load(RATE, seed=len(crews), survives=True)
        crews.append(Crew(kind, stage, elder, visitor, load, fixed))
    return crews


def poison(ends: dict[int, int]) -> set[tuple[int, int]]:
    """Return the places of all records that fail for ever."""
    return {(partition, at) for partition, end in ends.items() for at in range(end) if is_poison(at)}


def run(broker: KafkaBroker, crews: list[Crew]) -> dict[str, Any]:
    """Carry the plan out, wait until all is committed, stop; return what belongs to all crews."""
    by_kind = {crew.kind: crew for crew in crews}
    for crew in crews:
        crew.elder.start()
        crew.load.start()
    sampler = Sampler(broker.bootstrap, crews)
    away_s: list[float] = []
    late_s: list[float] = []
    steps: list[tuple[float, str, str]] = []
    try:
        for at_s, who, action in [*plan(), (DURATION_S, "all", "end")]:
            while time.monotonic() - sampler.began_s - sum(late_s) < at_s:
                time.sleep(0.05)
            began_s = time.monotonic()
            if who == "broker":
                broker.restart()
                away_s = [began_s - sampler.began_s, time.monotonic() - sampler.began_s]
            elif who != "all":
                by_kind[who].act(action)
            steps.append((began_s - sampler.began_s, who, action))
            # What takes long moves all that follows: a visitor keeps its time.
            late_s.append(time.monotonic() - began_s)
        for crew in crews:
            crew.load.stop()
            crew.fixed.touch()
        for crew in crews:
            crew.stage.wait_until_committed(crew.load.ends, 60.0)
    finally:
        sampler.stop()
    for crew in crews:
        crew.stage.stop_members(timeout_s=STOP_S)
    settings = {"minutes": DURATION_S / 60, "period_s": PERIOD_S, "rate": RATE}
    return {**settings, "broker_away_s": away_s, "steps": steps}


def result(crew: Crew, back_s: float) -> dict[str, Any]:
    """Return everything that was seen of a crew as plain values."""
    return {
        "kind": crew.kind,
        "produced": crew.load.count,
        "kills": crew.kills,
        "leaves": crew.leaves,
        "letters": crew.progress[-1][3],
        "slope_mb_per_hour": crew.slope_mb_per_hour(back_s),
        "progress": crew.progress,
        "memory": crew.memory,
        "verdict": crew.verdict().as_dict(),
    }


def letters_by_part(crew: Crew) -> tuple[list[int], list[int]]:
    """Return how many letters were there at the end of each part of the run, and at its beginning."""
    seen = [
        next(one[3] for one in crew.progress if one[0] >= DURATION_S * part / PARTS) for part in range(PARTS)
    ]
    return [*seen[1:], crew.progress[-1][3]], seen


@pytest.mark.timeout(300 + 3 * DURATION_S)
def test_row_27_members_of_all_kinds_come_leave_and_die(
    kafka: KafkaBroker, stage_on: Callable[..., Any]
) -> None:
    """Nothing lost, out of order or committed early; only a kill repeats; letters are those that must be."""
    crews = crews_on(kafka, stage_on)
    facts = run(kafka, crews)
    if path := os.environ.get("EHKAFKA_SOAK_FILE"):
        seen = [result(crew, facts["broker_away_s"][1]) for crew in crews]
        Path(path).write_text(json.dumps({**facts, "crews": seen}))
    for crew in crews:
        judge(crew)
        assert crew.kills
        assert crew.leaves
        letters = letters_of(kafka.bootstrap, f"{crew.stage.topic}.dead")
        found = {(partition, offset): key or b"" for partition, offset, key in letters}
        assert poison(crew.load.ends) <= found.keys(), crew.kind
        given_up = {place: key for place, key in found.items() if not is_poison(place[1])}
        assert all(map(is_failing, given_up.values())), crew.kind
        assert not IS_LONG or all(map(gt, *letters_by_part(crew))), crew.kind
        is_few = crew.verdict().duplicate_share <= REPEATED_SHARE_MAX
        assert is_few or MINUTES < REPEATED_MINUTES_MIN, crew.verdict().report()
