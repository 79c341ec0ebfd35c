"""What an outside reader sees of the topics and commits of a group, and whether it keeps the promises.

Each input, output and dead letter is read once. `check` compares the group's commits with them while it runs,
`judge` all of it at the end. A violation names its record as `partition@offset`.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ehkafka.progress.metadata import Unusable, decode
from tests.integration.output_member import ACTIONS, GROUP, INPUT
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PATIENCE_S = 60.0
READ_AT_ONCE_S = 0.1
SHOWN_EACH = 5
CLIENT = {"enable.auto.commit": False, "log_level": 0, "error_cb": lambda _error: None}


class Input(NamedTuple):
    """A record of the input topic: its number within its key, and what it asks for."""

    key: bytes
    number: int
    action: str


class Commit(NamedTuple):
    """What a group says of a partition: all below is finished, and so are these ranges."""

    next_offset: int
    finished: tuple[tuple[int, int], ...]

    def covers(self, offset: int) -> bool:
        """Tell whether a record counts as finished."""
        return offset < self.next_offset or any(start <= offset < end for start, end in self.finished)

    def offsets_from(self, checked: int) -> Iterator[int]:
        """Yield what is finished, without what is below `checked`."""
        yield from range(checked, self.next_offset)
        for start, end in self.finished:
            yield from range(start, end)


class Reader:
    """Reads a topic as far as it is asked to, again and again. Aborted messages are left out.

    Its ends are those of the log: one that reads up to them waits for each transaction that is open.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, take: Callable[[Any], object]) -> None:
        self._config = {**CLIENT, "bootstrap.servers": bootstrap, "group.id": "reads"}
        self._places = [(topic, partition) for partition in range(partitions)]
        self._next = [0] * partitions
        self._take = take
        # How often the client did not find its place.
        self.resets = 0
        self._open()

    def _open(self) -> None:
        self._ends = Consumer({**self._config, "isolation.level": "read_uncommitted"})
        # Else a client that finds its place to be out of range goes on at the end, unseen.
        only_here = {"enable.partition.eof": True, "auto.offset.reset": "error"}
        self._consumer = Consumer({**self._config, **only_here})
        self._assign()

    def _assign(self) -> None:
        starts = zip(self._places, self._next, strict=True)
        self._consumer.assign([TopicPartition(*place, start) for place, start in starts])

    def read(self) -> None:
        """Read all that the log has now."""
        for tries_left in (2, 1, 0):
            try:
                self._read()
                break
            except (AssertionError, KafkaException):
                # A client may never find a broker again that was away (librdkafka's issue 5301).
                if not tries_left:
                    raise
                self.close()
                self._open()

    def _read(self) -> None:
        ends = [patiently(self._end, place) for place in self._places]
        wait_until(
            lambda: all(here >= end for here, end in zip(self._next, ends, strict=True)),
            lambda: f"{self._places[0][0]} is read to {self._next}, not to {ends}",
            PATIENCE_S,
            meanwhile=self._consume,
        )

    def _consume(self) -> None:
        for message in self._consumer.consume(1000, READ_AT_ONCE_S):
            self._read_one(message)

    def close(self) -> None:
        """Close both clients."""
        self._ends.close()
        self._consumer.close()

    def _end(self, place: tuple[str, int]) -> int:
        return self._ends.get_watermark_offsets(TopicPartition(*place), timeout=5.0)[1]

    def _read_one(self, message: Any) -> None:
        error, partition = message.error(), message.partition()
        if error is None:
            self._next[partition] = message.offset() + 1
            self._take(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # Behind it may be what ends a transaction, which is no message.
            self._next[partition] = max(self._next[partition], message.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self.resets += 1
            self._assign()


class Commits:
    """Reads the commits of the group; an offset that a transaction has not decided is waited for."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._config = {**CLIENT, "bootstrap.servers": bootstrap, "group.id": GROUP}
        self._places = [TopicPartition(INPUT, partition) for partition in range(partitions)]
        self._consumer = Consumer(self._config)

    def read(self) -> list[Commit]:
        """Return what each partition's commit says now."""
        try:
            places = patiently(self._committed)
        except KafkaException:  # see `Reader.read`
            self.close()
            self._consumer = Consumer(self._config)
            places = patiently(self._committed)
        return [self._commit(place) for place in places]

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _committed(self) -> list[TopicPartition]:
        places = self._consumer.committed(self._places, timeout=10.0)
        for place in places:
            if place.error is not None:
                raise KafkaException(place.error)
        return places

    @staticmethod
    def _commit(place: TopicPartition) -> Commit:
        metadata = decode(place.metadata or "", place.offset)
        finished = () if isinstance(metadata, Unusable) else metadata.ranges.finished
        return Commit(max(place.offset, 0), tuple(finished))


def patiently(ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a broker answers, which may be frozen, gone or on its way up."""
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask(*arguments)
        except KafkaException:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.2)


class Seen:
    """All that was read, and the violations so far."""

    def __init__(self, partitions: int, *, exactly_once: bool, is_strict: bool) -> None:
        self.exactly_once = exactly_once
        self.is_strict = is_strict
        self.inputs: list[list[Input]] = [[] for _ in range(partitions)]
        self.outputs: Counter[tuple[int, int, int]] = Counter()
        self.letters: Counter[tuple[int, int]] = Counter()
        self.violations: Counter[str] = Counter()
        self.shown: list[str] = []
        self.checks = self.ranges_seen = self.repeated = self.jumps = 0
        self._by_key: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
        self._output_partition: dict[bytes, int] = {}
        self._checked = [0] * partitions
        self._fresh: set[tuple[int, int]] = set()
        self._named: set[tuple[str, int, int]] = set()

    def input(self, message: Any) -> None:
        """Note an input; the load has no hole."""
        number, action, _ = message.value().split()
        records = self.inputs[message.partition()]
        assert message.offset() == len(records)
        records.append(Input(message.key(), int(number), action.decode()))

    def output(self, message: Any) -> None:
        """Note an output."""
        partition, offset, number, place = map(int, message.value()[:64].split()[:4])
        self.outputs[partition, offset, place] += 1
        self._fresh.add((partition, offset))
        self._by_key[message.key()].append((number, place))
        if self._output_partition.setdefault(message.key(), message.partition()) != message.partition():
            self.violate("two_partitions", partition, offset, f"key {message.key()!r} is in two of them")

    def letter(self, message: Any) -> None:
        """Note a dead letter."""
        headers = dict(message.headers())
        record = int(headers["ehkafka-origin-partition"]), int(headers["ehkafka-origin-offset"])
        self.letters[record] += 1
        self._fresh.add(record)

    def violate(self, kind: str, partition: int, offset: int, text: str) -> None:
        """Note a violation by a record, each kind once."""
        if (kind, partition, offset) not in self._named:
            self._named.add((kind, partition, offset))
            self.blame(kind, f"{partition}@{offset} {text}")

    def blame(self, kind: str, text: str) -> None:
        """Note a violation."""
        self.violations[kind] += 1
        if self.violations[kind] <= SHOWN_EACH:
            self.shown.append(f"{kind}: {text}")

    def take_fresh(self) -> set[tuple[int, int]]:
        """Return the records of what was read since the last call."""
        fresh, self._fresh = self._fresh, set()
        return fresh

    def check(self, commits: list[Commit], sent: set[tuple[int, int]]) -> None:
        """Compare commits with all that was read after them, and exactly once with what was sent before."""
        self.checks += 1
        for partition, offset in sent if self.exactly_once else ():
            if not commits[partition].covers(offset):
                text = f"was sent, and the commit is {commits[partition]}"
                self.violate("uncovered", partition, offset, text)
        for partition, commit in enumerate(commits):
            self.ranges_seen += len(commit.finished)
            for offset in commit.offsets_from(self._checked[partition]):
                if lacks := self.lacks(partition, offset):
                    self.violate("early", partition, offset, f"{lacks}, and the commit is {commit}")
            self._checked[partition] = max(self._checked[partition], commit.next_offset)

    def lacks(self, partition: int, offset: int) -> str:
        """Return what an input has not sent."""
        action = self.inputs[partition][offset].action
        places, letters = ACTIONS[action]
        missing = [f"output {place}" for place in places if not self.outputs[partition, offset, place]]
        missing += ["dead letter"] if letters and not self.letters[partition, offset] else []
        return f"({action}) has no {', no '.join(missing)}" if missing else ""

    def lost_by_partition(self) -> dict[str, Counter[int]]:
        """Return how many inputs lack something, by their partitions and by those of their outputs."""
        found: dict[str, Counter[int]] = {"inputs": Counter(), "outputs": Counter()}
        for partition, records in enumerate(self.inputs):
            for offset, record in enumerate(records):
                if self.lacks(partition, offset):
                    found["inputs"][partition] += 1
                    found["outputs"][self._output_partition.get(record.key, -1)] += 1
        return found

    def judge(self) -> None:
        """Look at each input and each key."""
        for partition, records in enumerate(self.inputs):
            for offset, record in enumerate(records):
                self._judge_record(partition, offset, record.action)
        for (partition, offset, place), count in self.outputs.items():
            self._judge_output(partition, offset, place, count)
        expected: Mapping[bytes, list[tuple[int, int, int, int]]] = defaultdict(list)
        for partition, records in enumerate(self.inputs):
            for offset, (key, number, action) in enumerate(records):
                expected[key].extend((number, place, partition, offset) for place in ACTIONS[action][0])
        for key, outputs in expected.items():
            self._judge_key(outputs, self._by_key[key])

    def _judge_record(self, partition: int, offset: int, action: str) -> None:
        if lacks := self.lacks(partition, offset):
            self.violate("lost", partition, offset, lacks)
        extra = self.letters[partition, offset] - ACTIONS[action][1]
        if extra > 0 and not ACTIONS[action][1]:
            self.violate("unexpected", partition, offset, f"({action}) has a dead letter")
        elif extra > 0:
            self._judge_repeats(partition, offset, extra, "dead letter")

    def _judge_output(self, partition: int, offset: int, place: int, count: int) -> None:
        action = self.inputs[partition][offset].action
        # What a record has sent with a refused output may be seen.
        is_optional = action == "both" and place == 0 and not self.is_strict
        if place not in ACTIONS[action][0] and not is_optional:
            self.violate("unexpected", partition, offset, f"({action}) has output {place}")
        if count > 1:
            self._judge_repeats(partition, offset, count - 1, f"output {place}")

    def _judge_repeats(self, partition: int, offset: int, extra: int, what: str) -> None:
        self.repeated += extra
        if self.exactly_once:
            self.violate("repeated", partition, offset, f"has its {what} {extra + 1} times")

    def _judge_key(self, expected: list[tuple[int, int, int, int]], outputs: list[tuple[int, int]]) -> None:
        """The first of each output comes in the inputs' order, and the last output of all is the last one."""
        order = {(number, place): at for at, (number, place, _, _) in enumerate(expected)}
        highest = before = -1
        for output in outputs:
            at = order.get(output)
            if at is None:
                continue
            if at > highest + 1:
                _, _, *passed = expected[highest + 1]
                number, place = output
                self.violate("order", *passed, f"was passed by output {place} of its key's number {number}")
            elif at > before + 1:
                self.jumps += 1
            highest, before = max(highest, at), at
        if before != highest:
            _, _, *last = expected[before]
            self.violate("last", *last, "is repeated behind its key's last output")
