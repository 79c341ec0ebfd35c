"""Members whose handlers send, killed and started again under load, and the judgement over all they sent."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, TopicPartition

from tests.contract.outputs_order import problems
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Workers of a member by their kind; four processes are five interpreters.
WORKERS = {"threads": 16, "tasks": 16, "batches": 4, "processes": 4}
INPUT_PARTITIONS = 8
OUTPUT_PARTITIONS = 4
# Until a member has started, or stopped: one with processes takes minutes where many share a machine.
PATIENCE_S = 300.0
# What the members get done at least, so that a crowded machine is no failure.
SLOWEST_PER_S = 50.0
# Between a kill and the next one, beside what the members need to have partitions.
LIFE_S = (0.2, 1.0)
# The guest comes and goes: so long it stays, and half as long it is away.
GUEST_S = 5.0
SETTINGS = ("commit_interval_s=0.25", "drain_s=1", "backlog_records_max=2000")
PACE = [part for setting in SETTINGS for part in ("--setting", setting)]
KAFKA_SESSION_MS = 1500


class Guest:
    """A member that joins and leaves in good order, again and again, on a thread of its own."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._over = threading.Event()
        self.codes: list[int] = []
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="guest", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            self._come_and_go()
        except BaseException as problem:  # raised again by whoever waits for the guest
            self._problem = problem

    def _come_and_go(self) -> None:
        while not self._over.is_set():
            self._member.start()
            # Before that a signal would only end the interpreter.
            wait_until(self._member.assigned, lambda: f"partitions\n{self._member.log_tail()}", PATIENCE_S)
            self._over.wait(GUEST_S)
            self._member.terminate()
            self.codes.append(self._member.wait(PATIENCE_S))
            self._over.wait(GUEST_S / 2)


@dataclass
class Killing:
    """One group of sending members on a stage. `kinds` has a kind of workers for each member."""

    stage: Any
    kinds: Sequence[str]
    kills: int
    # One output in so many is too large for its topic; 0: none is.
    large_every: int = 0
    session_ms: int = KAFKA_SESSION_MS
    # Where members find the broker, if not where the test does.
    bootstrap: str | None = None
    # What workers a member of each kind has.
    workers: dict[str, int] = field(default_factory=lambda: WORKERS)
    # More of the members' command lines; it counts where it says something again.
    more: Sequence[str] = ()
    # Called before each kill with its number.
    before_kill: Callable[[int], object] = lambda _number: None

    def __post_init__(self) -> None:
        """Make the topics and the members, of which none runs."""
        topic = self.stage.topic
        config = {"max.message.bytes": "200000"} if self.large_every else None
        self.stage.broker.create_topic(f"{topic}-out", OUTPUT_PARTITIONS, *filter(None, [config]))
        self.stage.broker.create_topic(f"{topic}-dead", 1)
        self.members = [self.member(f"member-{n}", kind) for n, kind in enumerate(self.kinds)]

    def member(self, name: str, kind: str) -> Any:
        """Return one more member of the group, not started."""
        topic = self.stage.topic
        to = ["--to", f"{topic}-out", "--dead", f"{topic}-dead", "--large-every", str(self.large_every)]
        how = ["--kind", kind, "--workers", str(self.workers[kind]), "--handler-ms", "1-8"]
        where = [] if self.bootstrap is None else ["--bootstrap", self.bootstrap]
        session = {"session.timeout.ms": self.session_ms}
        return self.stage.member(name, *PACE, *to, *how, *where, *self.more, consumer=session)

    def start(self) -> None:
        """Start all members but a guest."""
        for member in self.members:
            member.start()

    def kill_all_in_turn(self) -> None:
        """Kill one after the other and start it again, as often as is asked for."""
        for number in range(self.kills):
            self._kill(number, self.members[number % len(self.members)], random.Random(number))

    def judge_under(self, load: Any, guest_kind: str) -> None:
        """Kill while the load comes and a guest comes and goes; then judge."""
        load.start()
        self.start()
        with Guest(self.member("guest", guest_kind)) as guest:
            self.kill_at_random()
        load.stop()
        self.end(load.ends)
        assert set(guest.codes) == {0}, self.stage.logs()
        self.judge()

    def kill_at_random(self) -> None:
        """Kill whoever comes, as often as is asked for."""
        dice = random.Random(20)
        for number in range(self.kills):
            self._kill(number, dice.choice(self.members), dice)

    def _kill(self, number: int, victim: Any, dice: random.Random) -> None:
        wait_until(victim.assigned, lambda: f"a member has partitions\n{self.stage.logs()}", PATIENCE_S)
        time.sleep(dice.uniform(*LIFE_S))
        self.before_kill(number)
        victim.kill()
        victim.start()

    def end(self, until: dict[int, int]) -> None:
        """Wait until all is committed, and stop the members in good order."""
        self.stage.wait_until_committed(until, PATIENCE_S + sum(until.values()) / SLOWEST_PER_S)
        for member in self.members:
            # Who was killed last may still be on its way up: a signal would only end the interpreter.
            wait_until(member.assigned, lambda: f"all have partitions\n{self.stage.logs()}", PATIENCE_S)
        for member in self.members:
            member.terminate()
        codes = [member.wait(PATIENCE_S) for member in self.members]
        assert codes == [0] * len(self.members), self.stage.logs()

    def judge(self) -> None:
        """Look at every output, and at the letters of what was refused."""
        inputs, refused = inputs_of(self.stage, self.large_every)
        out = f"{self.stage.topic}-out"
        outputs = [
            (m.key(), m.value()) for m in read_all(self.stage.broker.bootstrap, out, OUTPUT_PARTITIONS)
        ]
        found = problems(inputs, outputs)
        assert found == [], f"FACT: outputs are lost or out of order: {found[:20]}"
        letters = set()
        for message in read_all(self.stage.broker.bootstrap, f"{self.stage.topic}-dead", 1):
            headers = dict(message.headers())
            letters.add((int(headers["ehkafka-origin-partition"]), int(headers["ehkafka-origin-offset"])))
        assert letters == refused, "FACT: the letters are not those of the outputs that were refused"
        count = sum(map(len, inputs.values()))
        logging.getLogger(__name__).info(
            "%s: %d inputs, %d outputs repeated, %d refused, %d kills",
            ", ".join(self.kinds),
            count,
            len(outputs) - count,
            len(refused),
            self.kills,
        )


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    """Yield every message of a topic, each partition in its order."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "log_level": 0})
    try:
        for number in range(partitions):
            low, high = reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10.0)
            assert low == 0
            reader.assign([TopicPartition(topic, number, 0)])
            next_offset = 0
            while next_offset < high:
                messages = reader.consume(min(1000, high - next_offset), 60.0)
                assert messages, f"{topic}[{number}] ends at {next_offset}, not at {high}"
                for message in messages:
                    assert message.error() is None
                    next_offset = message.offset() + 1
                    yield message
    finally:
        reader.close()


def inputs_of(
    stage: Any, large_every: int, partitions: int = INPUT_PARTITIONS
) -> tuple[dict[bytes, list[bytes]], set[tuple[int, int]]]:
    """Return what each key's outputs are to be, in order, and the records whose outputs are refused."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    refused = set()
    for message in read_all(stage.broker.bootstrap, stage.topic, partitions):
        partition, offset = message.partition(), message.offset()
        if large_every and offset % large_every == large_every // 2:
            refused.add((partition, offset))
        else:
            found[message.key()].append(b"%d:%d" % (partition, offset))
    return found, refused
