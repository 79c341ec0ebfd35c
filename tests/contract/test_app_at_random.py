"""Apps drawn from seeds, judged from outside: order, results, commits, repeats, counts.

A seed draws the handler's kind and options, records that are quick, slow, late or failing, and what is done
meanwhile: commands, stops, crashes, members that come and go. `EHKAFKA_RANDOM_APP_SEEDS=500` runs more seeds.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ehkafka
from ehkafka.errors import ActionRefusedError, UnfinishedError
from ehkafka.events import RecordSkipped
from ehkafka.lanes.order import KeyReader
from ehkafka.testing import ApiKey, EmbeddedBroker
from tests.contract.conftest import FAST_GROUP
from tests.contract.in_loop import InLoop
from tests.kit.random_handlers import Handlers
from tests.kit.random_judge import Judge, Seen
from tests.kit.random_plan import ALONE, BATCHES, PARTITIONS, Place, Plan, by_group, draw

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = int(os.environ.get("EHKAFKA_RANDOM_APP_SEEDS", str(ALONE)))
LIMIT_S = 30.0
# Records come for so long, where not all at once.
FEED_S = 0.7
# A seed whose records have several keys in each batch.
BY_GROUP = 3


class Run:
    """One run: its members, and what is done to them."""

    def __init__(self, plan: Plan, broker: EmbeddedBroker) -> None:
        self.plan, self.broker, self.seen = plan, broker, Seen()
        self.rng = random.Random(plan.seed)
        self.faults: list[str] = []
        self.members: list[Any] = []
        self.where = [(topic, p) for topic in plan.topics for p in range(PARTITIONS[topic])]
        self._reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})

    @property
    def running(self) -> list[Any]:
        """The members that run; acts are done to the last one."""
        return [member for member in self.members if member.state == "running"]

    def run(self) -> list[str]:
        """Do all of it; return what is wrong."""
        feeder = threading.Thread(target=self._feed, daemon=True)
        feeder.start()
        self._join()
        try:
            for act in self.plan.acts:
                self._act(act)
            feeder.join(LIMIT_S)
            self._finish()
            for member in self.running:
                self._stop(member)
        finally:
            for member in self.running:
                with suppress(ehkafka.EhkafkaError):
                    member.stop(drain=False, timeout_s=2.0)
            self._reader.close()
        self._read_letters()
        return self.faults + Judge(self.plan, self.seen).faults

    def _feed(self) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 1})
        for wave in self.plan.waves:
            for topic, partition, key, value in wave:
                producer.produce(topic, value, key, partition)
            producer.flush(LIMIT_S)
            time.sleep(FEED_S / len(self.plan.waves))

    # -- members ---------------------------------------------------------------------------------------------

    def _join(self) -> Any:
        options: dict[str, Any] = {"group": "g", "start": "earliest", "consumer": FAST_GROUP}
        endpoint = ehkafka.Endpoint.kafka(self.broker.bootstrap)
        app = ehkafka.App(endpoint=endpoint, **options, **self.plan.settings)
        register = app.batch_handler if self.plan.kind in BATCHES else app.handler
        handlers = Handlers(self.plan, len(self.members), self.seen.lines)
        register(*self.plan.topics, **self.plan.options)(handlers.function())
        app.add_hook(self)
        app.on_revoked(lambda partition, _reason: self._ended(partition))
        app.on_lost(self._ended)
        member = InLoop(app) if self.plan.settings["loop"] == "caller" else app
        member.start()
        self.members.append(member)
        return member

    def _ended(self, *partitions: Any) -> None:
        for partition in partitions:
            self.seen.ends[tuple(partition)].append(time.monotonic_ns())

    def on_event(self, event: Any) -> None:
        """Hear of what is skipped."""
        if isinstance(event, RecordSkipped):
            self.seen.skipped.add(Place(*event.partition, event.offset))

    def _stop(self, member: Any, **how: Any) -> None:
        """Stop a member; the embedded broker takes no commit while it shares partitions out anew."""
        is_good = not how and not {"lose", "join"} & {*self.plan.acts}
        try:
            member.stop(**how)
        except UnfinishedError:
            is_good = False
        self._ended(*self.where)
        self._commits()
        if is_good:
            self.seen.stops.append((time.monotonic_ns(), self.members.index(member)))
        self._check_counts(member.snapshot())

    # -- what is looked at -----------------------------------------------------------------------------------

    def _commits(self) -> dict[Any, int]:
        found = self._reader.committed([TopicPartition(*where) for where in self.where], timeout=10.0)
        commits = {(one.topic, one.partition): max(0, one.offset) for one in found}
        now_ns = time.monotonic_ns()
        self.seen.commits += [(now_ns, where, offset) for where, offset in commits.items()]
        return commits

    def _check_counts(self, *parts: Any) -> None:
        """Received is what has a result, was returned, or is unfinished."""
        for part in parts:
            results = part.finished_records + part.skipped_records + part.dead_lettered_records
            rest = part.backlog_records + part.parked_records + getattr(part, "returned_records", 0)
            if part.received_records != results + rest:
                self.faults.append(f"counts do not add up: {part}")

    def _read_letters(self) -> None:
        reader = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "letters"})
        dead = TopicPartition("dead", 0, 0)
        reader.assign([dead])
        count = reader.get_watermark_offsets(dead, timeout=10.0)[1]
        while count:
            for letter in reader.consume(count, 0.1):
                count -= 1
                origin = dict(letter.headers())
                topic, partition, offset = (
                    origin[f"ehkafka-origin-{part}"] for part in ("topic", "partition", "offset")
                )
                self.seen.letters.add(Place(topic.decode(), int(partition), int(offset)))
        reader.close()

    # -- what is done ----------------------------------------------------------------------------------------

    def _act(self, act: str) -> None:
        member = self.running[-1]
        time.sleep(self.rng.choice((0.0, 0.01, 0.1)))
        self._commits()
        if not {"lose", "join"} & {*self.plan.acts}:
            # What has ended a moment ago may be shown once more, without what it has returned.
            self._check_counts(*member.snapshot().partitions)
        match act:
            case "restart" | "crash":
                for one in self.running:
                    self._stop(one, **({"drain": False, "timeout_s": 0.0} if act == "crash" else {}))
                self._join()
            case "join":
                other = self._join()
                time.sleep(self.rng.choice((0.3, 1.0)))
                if self.rng.random() < 0.7:
                    self._stop(other)
            case "lose":
                self.broker.fail_next(ApiKey.HEARTBEAT, 25)
            case "resize":
                member.resize(member.snapshot().handlers[0].handler, workers=self.rng.choice((1, 2, 5, 20)))
            case _:
                with suppress(ActionRefusedError):
                    self._by_hand(act, member)

    def _by_hand(self, act: str, member: Any) -> None:
        keys, handler = member.keys, member.snapshot().handlers[0].handler
        name = self.rng.choice([one.name for one in keys.waiting()] + [f"k{self.rng.randrange(5)}"])
        match act:
            case "pause key":
                keys.pause(name, for_s=self.rng.choice((None, 0.1)), keep=self.rng.random() < 0.3)
            case "resume key":
                keys.resume(name)
            case "retry key":
                keys.retry(name)
            case "pause partition":
                keys.pause_partition(f"t4/{self.rng.randrange(4)}", for_s=0.1)
            case "stop handler":
                keys.stop_handler(handler)
                time.sleep(self.rng.choice((0.0, 0.05)))
                keys.start_handler(handler)

    def _finish(self) -> None:
        """Let all that waits go on until all is committed."""
        ends_s = time.monotonic() + LIMIT_S
        expected = dict.fromkeys(self.where, 0)
        for place in self.plan.names:
            expected[place[:2]] += 1
        while self._commits() != expected:
            if time.monotonic() > ends_s:
                waiting = [member.keys.waiting()[:3] for member in self.running]
                self.faults.append(f"{self._commits()} of {expected} is committed; {waiting}")
                return
            for member in self.running:
                for one in member.keys.waiting():
                    for do in (member.keys.resume, member.keys.retry):
                        with suppress(ActionRefusedError):
                            do(one.name)
            time.sleep(0.03)


@pytest.fixture
def run(embedded_broker_factory: Callable[..., EmbeddedBroker]) -> Callable[[int], list[str]]:
    """Return what carries out a seed's run and says what was wrong."""
    return lambda seed: Run(draw(seed), embedded_broker_factory({**PARTITIONS, "dead": 1})).run()


# What no slow machine makes: a record without a result may still get one.
FACTS = re.compile("overlaps|overtakes|of its key is next|is repeated within|below a commit|went back|passes")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_promise_is_broken_at_random(run: Callable[[int], list[str]], seed: int) -> None:
    """Order, results, commits, repeats and counts are as promised."""
    faults = run(seed)
    plan = draw(seed)
    what = (plan.options, plan.settings, plan.acts, len(faults), faults[:5])
    assert not faults, f"FACT: {what}" if any(FACTS.search(fault) for fault in faults) else what


@pytest.mark.slow
def test_mutant_all_records_have_the_first_ones_key(
    run: Callable[[int], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that are read together are each its own record's: else the next batch names them otherwise."""
    assert draw(BY_GROUP).options["order_by"] is by_group
    keys = KeyReader.keys
    monkeypatch.setattr(KeyReader, "keys", lambda self, messages: keys(self, messages)[:1] * len(messages))
    faults = [fault for _ in range(3) for fault in run(BY_GROUP)]
    assert any("overlaps" in fault or "overtakes" in fault for fault in faults), faults[:5]
