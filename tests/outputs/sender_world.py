"""Random histories of the sender: workers, epochs, judges and a broker around it, and who judges it.

The sender has no thread here: its turns are called one by one. Where it sleeps or lets its client call back,
the others go on, as they would on their threads.
"""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from functools import partial
from itertools import chain, pairwise
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from ehkafka.errors import EndpointError
from ehkafka.outputs import known_keys, one_producer, sender, unacknowledged
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.output import BatchSource, OutputRefusedError
from ehkafka.outputs.replacement import MAX_S
from ehkafka.outputs.unacknowledged import NotSentError, Unacknowledged
from tests.outputs.pretended_broker import Broker, Clock
from tests.outputs.pretended_client import Client
from tests.outputs.sender_sources import Epoch, Given, Record, Waiter
from tests.outputs.sender_threads import WORLDS, Flag, Standstill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.outputs.one_producer import ClientCallbacks
    from ehkafka.outputs.output import Answer, Output

KEYS = [bytes([number]) for number in range(97, 103)]
INPUTS = 3
FOREVER = 1 << 30


class World:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.clock = Clock()
        self.broker = Broker(rng)
        self.broker.has_written = self._wrote
        self.broker.throttles = rng.choice((0, 0, 0.02))
        self.broker.forgets = rng.choice((0, 0, 0.02))
        self.broker.loses = rng.choice((0, 0, 0.2))
        self.refuse_share = rng.choice((0, 0.01, 0.1))
        self.room = rng.choice((3, 20, FOREVER))
        self.fails_to_open = rng.choice((0, 0, 0.2))
        self.is_calm = False
        self.outputs = Unacknowledged(rng.choice((20, 1000)), waits=rng.random() < 0.5)
        self.epochs = [Epoch(partition) for partition in range(INPUTS)]
        self.given: dict[bytes, Given] = {}
        self.written: set[bytes] = set()
        # The same in its order, with repeats.
        self.log: list[bytes] = []
        # What need not be written: decided, failed with its attempt, or of an ended epoch.
        self.excused: set[bytes] = set()
        self.decided: set[bytes] = set()
        # What waits for the next start.
        self.kept: set[bytes] = set()
        # What is known to be acknowledged; what must not be written any more.
        self.safe: set[bytes] = set()
        self.banned: set[bytes] = set()
        # Epochs' ends that were asked for, with their values.
        self.ending: list[tuple[threading.Event | None, set[bytes]]] = []
        self.sources: list[Waiter] = []
        self.answers: list[tuple[bytes, Answer]] = []
        self.judged: dict[bytes, int] = {}
        self.clients: list[Client] = []
        self.may_act = True
        self.sender = sender.OutputSender(
            self.outputs,
            OneProducer(partial(self._open, is_alone=False), emit=lambda _: None),
            lambda: OneProducer(partial(self._open, is_alone=True), emit=lambda _: None),
            emit=lambda _: None,
            on_death=self._died,
            clock=self.clock.monotonic,
            at_once=rng.random() < 0.7,
            batch_outputs=rng.choice((2, 1000)),
            takes_turns=rng.random() < 0.7,
        )
        self.sender._known._wall_s = self.clock.time

    def _died(self, error: BaseException) -> None:
        raise error

    # -- clients ---------------------------------------------------------------------------------------

    def _open(self, callbacks: ClientCallbacks, _is_plain: bool, *, is_alone: bool) -> Client:
        if not self.is_calm and self.rng.random() < self.fails_to_open:
            raise EndpointError("no credential")
        assert not any(one.is_alone == is_alone and not one.is_over for one in self.clients), "two clients"
        client = JudgedClient(
            self.broker,
            self.clock,
            callbacks,
            is_alone=is_alone,
            room=self.room,
            meanwhile=self.meanwhile,
        )
        client.world = self
        self.clients.append(client)
        return client

    def _wrote(self, value: bytes) -> None:
        self.ban()
        assert value not in self.banned, f"{value!r} is written after its epoch has ended"
        self.written.add(value)
        self.log.append(value)

    # -- others' threads -------------------------------------------------------------------------------

    def meanwhile(self) -> None:
        """Do what other threads may do while the sender is in its client, or sleeps."""
        if not self.may_act:
            return
        self.may_act = False
        if self.rng.random() < 0.1:
            self.act()
            self.check_lists()
        self.may_act = True

    def act(self) -> None:
        """Do one thing that the sender has no hand in."""
        rng = self.rng
        if self.answers and (self.is_calm or rng.random() < 0.3):
            value, answer = self.answers.pop(rng.randrange(len(self.answers)))
            self.decide(value, answer)
        if self.is_calm:
            return
        chance = rng.random()
        if chance < 0.8:
            for _ in range(0 if self.outputs.is_closed else rng.choice((1, 1, 2, 5))):
                self.put()
        elif chance < 0.85:
            self.outputs.wake()
        elif chance < 0.9:
            topic = "t", rng.randrange(3)
            self.broker.stands ^= {topic}
        elif chance < 0.92:
            self.clock.now_s += rng.choice((0.3, 3.0))
        elif chance < 0.93:
            self.end_epoch(0.0)
        elif chance < 0.94:
            self.broker.partitions = rng.randrange(1, self.broker.partitions + 1)

    def put(self) -> None:
        """Let a call end that has sent something."""
        rng, partition = self.rng, self.rng.randrange(INPUTS)
        entry = self._entry(self.epochs[partition])
        kind = rng.choice(("plain", "plain", "plain", "several", "waiter", "before next", "batch"))
        source: Any = entry
        if kind == "batch":
            others = [self._entry(self.epochs[rng.randrange(INPUTS)]) for _ in range(2)]
            source = BatchSource([entry, *others])
        elif kind in {"waiter", "before next"}:
            source = Waiter(entry)
            source.world, source.takes_refusals = self, kind == "before next"
            source.count_acknowledged, source.end, source.values = 0, None, []
            self.sources.append(source)
        flat: list[Any] = []
        for _ in range(1 if kind == "plain" else rng.randrange(1, 4)):
            flat += self._output(source, entry)
        if isinstance(source, Waiter):
            source.values = flat[3 :: unacknowledged.PARTS]
        try:
            self.outputs.put(source, flat, rng.choice((10, 10, 20_000)), waits=False)
        except NotSentError:
            # It stops.
            self.excused.update(flat[3 :: unacknowledged.PARTS])
            raise

    def _entry(self, epoch: Epoch) -> Any:
        epoch.next_offset += 1
        return Record(at=epoch.next_offset, its_key=b"k"), b"k", 1, epoch

    def _output(self, source: Any, entry: Any) -> tuple[Any, ...]:
        rng = self.rng
        number = len(self.given)
        value = b"%d" % number
        topic = rng.choice(("t", "t", "t", "u"))
        key = rng.choice((*KEYS, None))
        partition = rng.choice((-1, -1, -1, 0))
        headers = None
        if rng.random() < self.refuse_share:
            self.broker.refuses[value] = rng.choice((1, 1, 2, FOREVER))
            headers = rng.choice((None, None, "large", "odd"))
        group = None if key is None and partition < 0 else (topic, key, partition)
        self.given[value] = Given(number, group, source)
        return self, source, topic, value, key, headers, partition

    def judge(self, output: Output, error: OutputRefusedError, tries: int, answer: Answer) -> None:
        """Decide on an output that is refused, now or later. An outlet's place in the sender's eyes."""
        value = output.value
        assert isinstance(error, OutputRefusedError)
        assert value is not None
        source = output.source
        assert not (isinstance(source, Waiter) and source.takes_refusals), (
            "a failed attempt's output is judged"
        )
        assert value in self.broker.refuses, f"{value!r} is judged, and was never refused"
        assert value not in self.excused or output.has_ended, "judged and decided already"
        assert tries == self.judged.get(value, 0) + 1, "a try is not counted"
        self.judged[value] = tries
        if self.rng.random() < 0.5:
            self.decide(value, answer)
        else:
            self.answers.append((value, answer))

    def decide(self, value: bytes, answer: Answer) -> None:
        """Answer: another try, or it is not needed any more."""
        if self.judged[value] < 3 and self.rng.random() < 0.7:
            answer(self.rng.choice((0.0, 0.05)))
        elif not self.is_calm and self.rng.random() < 0.1:
            self.kept.add(value)
            answer(inf)
        else:
            self.excused.add(value)
            self.decided.add(value)
            answer(None)

    def end_epoch(self, timeout_s: float, partition: int | None = None) -> None:
        """Have a partition taken away, and perhaps wait until nothing of it is sent any more."""
        self.check_order()
        partition = self.rng.randrange(INPUTS) if partition is None else partition
        old, self.epochs[partition] = self.epochs[partition], Epoch(partition)
        old.ended = True
        ended = {value for value, one in self.given.items() if unacknowledged.has_ended(one.source)}
        self.excused |= ended
        before = len(self.sender._purges)
        self.sender.end(timeout_s)
        done = self.sender._purges[-1] if len(self.sender._purges) > before else None
        self.ending.append((done, ended))
        if self.rng.random() < 0.3:
            self.put_late(old)

    def put_late(self, epoch: Epoch) -> None:
        """Let a worker put what its epoch's end has not seen: it looked before, and puts after."""
        source = Waiter(self._entry(epoch))
        source.world, source.takes_refusals, source.count_acknowledged, source.end = self, False, 0, None
        flat = self._output(source, source)
        source.values = [flat[3]]
        self.sources.append(source)
        self.excused.add(flat[3])
        self.banned.add(flat[3])
        self.outputs.added.extend(flat)

    def ban(self) -> None:
        """Note of which epochs nothing may be written any more."""
        for done, ended in self.ending:
            if done is None or done.is_set():
                self.banned |= ended
        self.ending = [(done, ended) for done, ended in self.ending if done and not done.is_set()]

    def stands_now(self) -> set[bytes]:
        """Return the values of all that is not acknowledged."""
        outputs = self.outputs
        with outputs.lock:
            flat = [*outputs.added, *chain.from_iterable(outputs.lines.values())]
            singles = [*chain(chain.from_iterable(outputs.batches), *outputs.aside.values())]
        values = flat[3 :: unacknowledged.PARTS] + [one.value for one in singles]
        assert len(values) == len(set(values)), "an output stands twice"
        return set(values)

    def check_lists(self) -> None:
        """Nothing counts as acknowledged that is not written."""
        standing = self.stands_now()
        gone = self.given.keys() - standing - self.safe
        for value in gone:
            excused = value in self.excused or unacknowledged.has_ended(self.given[value].source)
            assert excused or value in self.written, f"{value!r} is lost"
        self.safe |= gone
        assert not self.safe & standing, "acknowledged and not so any more"
        lowest = self.outputs.lowest()
        for value in standing:
            for entry in unacknowledged.entries_of(self.given[value].source):
                assert lowest[entry[3]] <= entry[0].offset()

    # -- a whole history -------------------------------------------------------------------------------

    def run(self, turns: int = 60) -> int:
        """Run it; return how many outputs were put."""
        self.is_calm = True
        self.sender._producer.start(0)
        self.is_calm = False
        for _ in range(turns):
            if self.rng.random() < 0.6:
                self.act()
            chance = self.rng.random()
            if chance < 0.04:
                self.end_epoch(60.0)
            elif chance < 0.06 and not self.outputs.batches:
                # The machine sleeps for a day, and the broker forgets its producers.
                self.clock.slept_s += 100_000.0
                self.broker.following.clear()
            self.sender._turn()
            if self.rng.random() < 0.2:
                self.check_lists()
        if self.rng.random() < 0.1:
            self.stop()
        else:
            self.calm_down()
            self.verdict()
        return len(self.given)

    def stop(self) -> None:
        """Stop in the middle: what is not acknowledged is counted, and no client is left."""
        self.may_act = self.rng.random() < 0.5
        began_s = self.clock.now_s
        left = self.sender.stop(self.rng.choice((0.0, 1.0, 5.0)))
        assert self.clock.now_s - began_s < 5 + 10, "a stop takes too long"
        self.check_lists()
        assert left == len(self.stands_now())
        assert all(one.is_over for one in self.clients)
        with pytest.raises(NotSentError):
            self.put()

    def calm_down(self) -> None:
        """Let all be well for some time."""
        self.is_calm = True
        self.broker.throttles = self.broker.forgets = self.broker.loses = 0.0
        self.broker.stands.clear()
        # A client that failed to open is opened again within a minute.
        self.clock.now_s += MAX_S
        while self.answers:
            self.act()
        self.sender._turn()
        for partition in range(INPUTS if self.kept else 0):
            self.end_epoch(60.0, partition)
        for _ in range(2000):
            if not (self.outputs.count() or self.answers):
                break
            self.act()
            self.sender._turn()
        for _ in range(3):
            self.sender._turn()

    def verdict(self) -> None:
        """All is written, in order, and every source has heard."""
        outputs = self.outputs
        self.check_lists()
        assert outputs.count() == 0, f"left: {sorted(self.stands_now())}"
        assert (outputs._bytes, outputs.is_full, outputs.kept) == (0, False, set())
        for source in self.sources:
            decided = (self.decided | self.kept).intersection(source.values)
            assert source.end or decided, "a source has heard nothing"
        for group, numbers in self.check_order().items():
            assert numbers[-1] == max(numbers), f"{group}: an earlier one is the last: {numbers}"

    def check_order(self) -> dict[object, list[int]]:
        """Check that each group is in order, and return what is written of it and not excused."""
        groups: dict[object, list[int]] = {}
        for value in self.log:
            one = self.given[value]
            if one.group is not None and value not in self.excused:
                groups.setdefault(one.group, []).append(one.number)
        for group, numbers in groups.items():
            known = sorted(set(numbers))
            for before, after in pairwise(numbers):
                # The next one, or one that was written already: nothing is left out by a repeat either.
                is_next = after <= before or after == known[known.index(before) + 1]
                assert is_next, f"{group}: {numbers}"
        return groups


class JudgedClient(Client):
    """What it is given is judged, too."""

    world: World

    def produce(self, topic: str, value: bytes, *given: Any, **options: Any) -> None:
        """Take a message that no other client has, and that is neither acknowledged nor decided."""
        world = self.world
        world.ban()
        # Not by `assert`: the sender takes an exception of a client for a refusal.
        if any(value in one.has for one in world.clients):
            pytest.fail(f"{value!r} goes two ways at once")
        if value in world.kept:
            pytest.fail(f"{value!r} waits for the next start and is sent")
        if value in world.safe:
            pytest.fail(f"{value!r} is acknowledged and sent again")
        if value in world.banned:
            pytest.fail(f"{value!r} is sent after its epoch has ended")
        super().produce(topic, value, *given, **options)


@contextmanager
def made_small(seed: int) -> Iterator[Clock]:
    """Let limits be so low that a short history meets them."""
    rng = random.Random(-seed - 1)
    pretended = SimpleNamespace(Event=Flag, Thread=Standstill, Lock=threading.Lock)
    with (
        patch.object(sender, "threading", pretended),
        patch.object(sender, "SLICE", rng.choice((2, 5, 500))),
        patch.object(OneProducer, "batches_max", rng.choice((1, 10))),
        patch.object(sender, "LINES_MAX", rng.choice((2, 1000))),
        patch.object(known_keys, "KEYS_MAX", rng.choice((3, 1000))),
    ):
        yield


@contextmanager
def in_a_world(seed: int) -> Iterator[World]:
    """Give a world, whose clock is the sender's."""
    with made_small(seed):
        world = World(seed)
        WORLDS.append(world)
        try:
            with patch.object(sender, "time", world.clock), patch.object(one_producer, "time", world.clock):
                yield world
        finally:
            WORLDS.pop()


def run_seed(seed: int) -> int:
    """Run one history; return how many outputs it had."""
    with in_a_world(seed) as world:
        return world.run()


def histories(seeds: int = 150, first: int = 0) -> None:
    """Run some."""
    for seed in range(first, first + seeds):
        run_seed(seed)
