"""The broker's transactions in a simulation: producers and their epochs, outputs and offsets that wait.

Follows Kafka as far as a client can tell. A commit has two moments: it is decided, and then outputs and
offsets become visible, together. An output's place in its topic is where it was appended, whenever its
transaction ends. Each commit is judged as it becomes visible: by then just the records that its text says
have their outputs.
"""

from __future__ import annotations

import enum
import random
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from confluent_kafka import KafkaError

from ehkafka.progress.metadata import Unusable, decode
from tests.kit.simulated.group import SimulatedGroup
from tests.kit.simulated.outputs import LETTER, SentOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import TopicPartition
    from tests.kit.simulated.side_thread import SideThread
    from tests.kit.simulated.simulator import Simulation

    # What a commit stores: an offset and a text.
    Stored = tuple[int, str | None]

# The broker's words: an epoch that is over, and a transaction that is not over yet.
FENCED = 47
CONCURRENT = 51
# For so long a coordinator that was cut off may answer without what the group has committed since.
OLD_S = 1.5


class _State(enum.Enum):
    NONE = "nothing is open"
    OPEN = "outputs or offsets came"
    COMMITTING = "decided, and not yet visible"


@dataclass(slots=True)
class _Appended:
    output: SentOutput
    # None until its transaction is over.
    is_committed: bool | None = None


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    state: _State = _State.NONE
    # Which of its transactions this is.
    number: int = 0
    appended: list[_Appended] = field(default_factory=list)
    offsets: dict[TopicPartition, Stored] = field(default_factory=dict)


class Membership(NamedTuple):
    """What a client says of its membership."""

    number: int
    member_id: str

    @classmethod
    def read(cls, metadata: bytes) -> Self:
        """Return what librdkafka's metadata of a group say."""
        number, texts = metadata[7:11], metadata[11:].split(b"\0")
        return cls(int.from_bytes(number, sys.byteorder, signed=True), texts[1].decode())


class TransactionalGroup(SimulatedGroup):
    """A group that takes offsets also from transactions."""

    def refusal_of(self, of: Membership) -> int | None:
        """Return why a transaction's offsets are not taken.

        The group does not look which member owns the partitions, and believes a client that says it is no
        member.
        """
        self.check()
        if not of.member_id and of.number < 0:
            return None
        if of.member_id not in self._members:
            return int(KafkaError.UNKNOWN_MEMBER_ID)
        return None if of.number == self.generation else int(KafkaError.ILLEGAL_GENERATION)

    def knows(self, name: str) -> bool:
        """Tell whether a member is one now, without a sign of its life."""
        self.check()
        return name in self._members


class SimulatedTransactions:
    """Transaction coordinator and output topics. Calls happen at the broker."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        # Apart, so that what is drawn for a seed without transactions stays the same.
        self.rng = random.Random(f"transactions {world.plan.seed}")
        self._producers: defaultdict[str, _Producer] = defaultdict(_Producer)
        self._appended: list[_Appended] = []
        # Visible ones by their input.
        self._visible: defaultdict[TopicPartition, dict[int, list[SentOutput]]] = defaultdict(dict)
        # What each producer's transactions have committed.
        self.decided: defaultdict[str, list[dict[TopicPartition, Stored]]] = defaultdict(list)
        # What each partition's commit was before its last transaction, until when that may be answered, and
        # the partition's last owner.
        self._before: dict[TopicPartition, tuple[Stored | None, float]] = {}
        self.owners: dict[TopicPartition, str] = {}
        # The threads of members, and which of them runs now.
        self.sides: list[SideThread] = []
        self.running: SideThread | None = None
        # How often outputs were refused.
        self._refused: Counter[SentOutput] = Counter()
        # How often each thing has happened, for tests that ask whether the seeds see it.
        self.seen: Counter[str] = Counter()

    # What producers ask for. Each returns an error, or None.

    def init(self, name: str) -> int | None:
        """Begin a producer's next epoch and end what the last one left open; None: wait for that."""
        producer = self._producers[name]
        if producer.state is _State.COMMITTING:
            return None
        self._abort(name, "init")
        producer.epoch += 1
        return producer.epoch

    def append(self, name: str, epoch: int, output: SentOutput) -> int | None:
        """Append an output."""
        producer = self._producers[name]
        if refusal := self._begin(name, epoch):
            return refusal
        appended = _Appended(output)
        producer.appended.append(appended)
        self._appended.append(appended)
        return None

    def add_offsets(
        self, name: str, epoch: int, of: Membership, offsets: Mapping[TopicPartition, Stored]
    ) -> int | None:
        """Take a transaction's offsets, if the group does."""
        if refusal := self._begin(name, epoch):
            return refusal
        group = self._world.group
        assert isinstance(group, TransactionalGroup)
        if refusal := group.refusal_of(of):
            self.seen["fenced by the group"] += 1
            return refusal
        if any(len(text or "") > self._world.plan.metadata_bytes_max for _, text in offsets.values()):
            return int(KafkaError.OFFSET_METADATA_TOO_LARGE)
        self._producers[name].offsets.update(offsets)
        return None

    def end(self, name: str, epoch: int, *, commits: bool) -> int | None:
        """Decide on a transaction."""
        producer = self._producers[name]
        if producer.epoch != epoch:
            return FENCED
        if producer.state is _State.COMMITTING:
            return CONCURRENT
        if not commits:
            self._abort(name, "asked")
        elif producer.state is _State.OPEN:
            producer.state = _State.COMMITTING
            self.decided[name].append(producer.offsets)
            self.seen["committed"] += 1
            self._world.note(name, "is decided to be committed", dict(producer.offsets))
            after_s = self.rng.expovariate(1 / self._world.plan.network_s) * self.rng.choice([0, 1, 10])
            self._world.clock.call_after(after_s, lambda: self._complete(name))
        return None

    def refuses(self, output: SentOutput) -> bool:
        """Tell whether the broker refuses an output this time."""
        if self._world.calm or self._refused[output] >= output.refused:
            return False
        self._refused[output] += 1
        self.seen["refused"] += 1
        return True

    def is_too_large(self, size: int, count: int) -> bool:
        """Tell whether the broker refuses a batch for its size."""
        most = self._world.plan.batch_bytes_limit
        if count < 2 or most is None or size <= most or self._world.calm:
            return False
        self.seen["batch too large"] += 1
        return True

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Tell whether a partition's offset is in a transaction that is not over."""
        return any(partition in producer.offsets for producer in self._producers.values())

    def answers_old(self, partition: TopicPartition, name: str) -> bool:
        """Tell whether a coordinator that was cut off answers this member.

        A member that gets a partition of another one has joined again, which only the present coordinator
        can answer: it has to write the new generation.
        """
        share = 0.0 if self._world.calm else self._world.plan.old_answer_share
        return self.owners.get(partition, name) == name and self.rng.random() < share

    def old(self, partition: TopicPartition) -> Stored | None:
        """Return what such a coordinator answers."""
        before, ends_s = self._before.get(partition, (None, 0.0))
        if self._world.clock.now_s() >= ends_s:
            return self._world.group.committed.get(partition)
        self.seen["old answers"] += 1
        return before

    # Its own.

    def _begin(self, name: str, epoch: int) -> int | None:
        producer = self._producers[name]
        if producer.epoch != epoch:
            return FENCED
        if producer.state is _State.COMMITTING:
            return CONCURRENT
        if producer.state is _State.NONE:
            producer.state = _State.OPEN
            producer.number += 1
            number = producer.number
            timeout_s = self._world.plan.transaction_timeout_s
            self._world.clock.call_after(timeout_s, lambda: self._time_out(name, number))
        return None

    def _time_out(self, name: str, number: int) -> None:
        producer = self._producers[name]
        if producer.state is _State.OPEN and producer.number == number:
            self._abort(name, "timed out")
            # Its producer is of no use any more.
            producer.epoch += 1

    def _abort(self, name: str, why: str) -> None:
        producer = self._producers[name]
        if producer.state is not _State.OPEN:
            return
        self.seen[f"aborted: {why}"] += 1
        self._world.note(name, "is aborted:", why)
        for appended in producer.appended:
            appended.is_committed = False
        self._close(producer)

    @staticmethod
    def _close(producer: _Producer) -> None:
        producer.state, producer.appended, producer.offsets = _State.NONE, [], {}

    def _complete(self, name: str) -> None:
        producer, committed = self._producers[name], self._world.group.committed
        for appended in producer.appended:
            appended.is_committed = True
            output = appended.output
            self._visible[output.partition].setdefault(output.offset, []).append(output)
        before = {partition: committed.get(partition) for partition in producer.offsets}
        ends_s = self._world.clock.now_s() + OLD_S
        self._before |= {partition: (was, ends_s) for partition, was in before.items()}
        committed.update(producer.offsets)
        self._world.note(name, "is visible", dict(producer.offsets))
        outside = {output.output.partition for output in producer.appended} - producer.offsets.keys()
        if outside:
            self._world.problem(f"{name} sent outputs of {outside} without offsets")
        self._close(producer)
        for partition, was in before.items():
            self._judge_commit(partition, was)

    # The judge.

    def _judge_commit(self, partition: TopicPartition, was: Stored | None) -> None:
        """Just what a partition's commit says has outputs, and it says all that was said before."""
        offsets = self._world.log.offsets(partition)
        covered = covered_by(self._world.group.committed.get(partition), offsets)
        for offset in sorted(covered_by(was, offsets) - covered):
            self._world.problem(f"{partition}@{offset} was committed, and is not any more")
        self._judge_outputs(partition, covered)

    def _judge_outputs(self, partition: TopicPartition, covered: set[int]) -> None:
        seen = self._visible[partition]
        for offset in sorted(seen.keys() ^ covered):
            what = "is committed without outputs" if offset in covered else "has outputs without a commit"
            self._world.problem(f"{partition}@{offset} {what}")
        for offset, outputs in seen.items():
            if wrong := wrong_with(outputs):
                self._world.problem(f"{partition}@{offset} {wrong}")

    def judge_end(self) -> None:
        """All records have their outputs, and those of a key are in order where they were appended."""
        log, committed = self._world.log, self._world.group.committed
        for partition in log.partitions:
            offsets = log.offsets(partition)
            covered = covered_by(committed.get(partition), offsets)
            if missing := sorted(set(offsets) - covered):
                self._world.problem(f"at the end {partition} has not committed {missing}")
            self._judge_outputs(partition, covered)
        last: dict[tuple[TopicPartition, bytes], tuple[int, int]] = {}
        for appended in self._appended:
            output = appended.output
            if not appended.is_committed or output.key is None or output.number == LETTER:
                continue
            group, place = (output.partition, output.key), (output.offset, output.number)
            if last.get(group, (-1, -1)) >= place:
                self._world.problem(f"the output {output} is behind that of {last[group]}")
            last[group] = place


def wrong_with(outputs: list[SentOutput]) -> str | None:
    """Return what is wrong with the visible outputs of one record, if anything is."""
    if len(outputs) == 1 and outputs[0].total == 1:
        return None
    if len({output.call for output in outputs}) > 1:
        return "has outputs of several calls"
    numbers = {output.number for output in outputs}
    if len(numbers) < len(outputs):
        return "has an output twice"
    missing = max(output.total for output in outputs) - len(outputs)
    if missing < 0:
        return "has a dead letter and all of its outputs"
    return "has not all of its outputs" if missing and LETTER not in numbers else None


def covered_by(stored: Stored | None, offsets: list[int]) -> set[int]:
    """Return which of a partition's records a commit says to be finished."""
    if stored is None:
        return set()
    next_offset, text = stored
    decoded = decode(text or "", next_offset)
    ranges = ((0, next_offset), *(() if isinstance(decoded, Unusable) else decoded.ranges.finished))
    found: set[int] = set()
    for start, end in ranges:
        found.update(offsets[bisect_left(offsets, start) : bisect_left(offsets, end)])
    return found
