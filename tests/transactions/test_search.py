"""The search for refused outputs: it ends, finds just those, and keeps the order of each key."""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.output import Output, OutputRefusedError
from ehkafka.records import TopicPartition
from ehkafka.transactions.search import BATCH_BYTES_MIN, ONE_BY_ONE, TAUGHT_S, Search, Suspect
from tests.kit.simulated.message import SimulatedMessage

EPOCH = Epoch(TopicPartition("in", 0), 1, {})
TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
NO_KEY = KafkaError.INVALID_RECORD


def output(number: int, size: int = 100, *, key: bytes | None = b"k", topic: str = "out") -> Output:
    """Return an output that was in a refused batch."""
    message = SimulatedMessage("in", 0, number, b"k")
    source = Suspect((message, b"k", size, EPOCH))
    way: Any = None
    return Output(way, source, topic, bytes(size - len(key or b"")), key, None, -1)


def refusal(code: int = TOO_LARGE) -> OutputRefusedError:
    """Return what a broker says."""
    return OutputRefusedError("no", code)


class PretendedBroker:
    """Takes whole batches of a partition, or refuses them; some after the first one are named, too."""

    def __init__(
        self, outputs: list[Output], rng: random.Random, *, limit: int, wrong: set[int], batch_bytes: int
    ) -> None:
        self.now_s = 0.0
        self.search = Search(batch_bytes, clock=lambda: self.now_s)
        self.outputs = outputs
        self._rng = rng
        self._limit = limit
        self._wrong = wrong
        self.committed: list[Output] = []
        self.refused: list[Output] = []
        self.aborted = 0

    def number_of(self, one: Output) -> int:
        """Return which output it is."""
        return int(one.source[0].offset())

    def run(self, aborts_max: int) -> None:
        """Carry out transactions until one is committed."""
        while True:
            found = [one for one in self.outputs if self.search.error_alike(one)]
            self._take_out(found)
            if self._transact():
                return
            self.aborted += 1
            assert self.aborted <= aborts_max, "it does not end"

    def _take_out(self, refused: list[Output]) -> None:
        self.refused += refused
        gone = {id(one) for one in refused}
        self.outputs = [one for one in self.outputs if id(one) not in gone]

    def _transact(self) -> bool:
        sent: list[Output] = []
        for number, places in self.search.parts(self.outputs):
            part = [self.outputs[place] for place in places]
            named, code = self._produce(part)
            if named:
                is_alone = len(part) == 1
                if self.search.failed(number, named, refusal(code), is_alone=is_alone):
                    self._take_out(named)
                return False
            sent += part
        self.search.passed(sent)
        self.committed = sent
        return True

    def _produce(self, part: list[Output]) -> tuple[list[Output], int]:
        partitions: dict[int, list[Output]] = {}
        for one in part:
            place = hash(one.key) % 3 if one.key else self._rng.randrange(3)
            partitions.setdefault(place, []).append(one)
        named: list[Output] = []
        code = 0
        for queue in partitions.values():
            while queue:
                batch = [queue.pop(0)]
                left = self.search.batch_bytes - batch[0].size
                while queue and (left := left - queue[0].size) >= 0:
                    batch.append(queue.pop(0))
                if why := self._refuses(batch):
                    named += batch
                    code = code or why
                    if self._rng.random() < 0.7:
                        queue.clear()
                        break
        named.sort(key=self.number_of)
        return named, code

    def _refuses(self, batch: list[Output]) -> int:
        if sum(one.size for one in batch) > self._limit:
            return TOO_LARGE
        return NO_KEY if any(self.number_of(one) in self._wrong for one in batch) else 0


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_it_ends_finds_just_the_refused_ones_and_keeps_each_keys_order(seed: int) -> None:
    """Whatever is refused, and however large a batch may be."""
    rng = random.Random(seed)
    count, limit = rng.choice([1, 3, 40, 400]), rng.choice([1_000, 20_000, 10**9])
    wrong = {number for number in range(count) if rng.random() < rng.choice([0, 0, 0.01, 0.2])}
    large_share = rng.choice([0, 0, 0.02, 0.3])
    outputs = [
        output(
            number,
            limit + 1 if rng.random() < large_share and limit < 10**9 else rng.choice([50, 200, 900]),
            key=rng.choice([b"%d" % (number % 7), b"%d" % number, None]),
        )
        for number in range(count)
    ]
    bad = [one for one in outputs if one.size > limit or int(one.source[0].offset()) in wrong]
    broker = PretendedBroker(
        outputs, rng, limit=limit, wrong=wrong, batch_bytes=rng.choice([10_000, 1_000_000])
    )
    broker.run(aborts_max=10 * len(bad) + 60)
    assert {id(one) for one in broker.refused} <= {id(one) for one in outputs}
    found, wanted = sorted(map(broker.number_of, broker.refused)), sorted(map(broker.number_of, bad))
    if NO_KEY not in {NO_KEY for one in bad if one.key is None and one.size <= limit}:
        assert found == wanted
    else:  # one without a key stands for all without, where a topic wants keys
        assert set(found) >= set(wanted)
        assert all(one.key is None for one in broker.refused if broker.number_of(one) not in wanted)
    last: dict[Any, int] = {}
    for one in broker.committed:
        if one.group is not None:
            assert last.get(one.group, -1) < broker.number_of(one)
            last[one.group] = broker.number_of(one)


def failed(search: Search, outputs: list[Output], code: int = TOO_LARGE) -> bool:
    """Have all of these refused in one part."""
    [(number, _), *_] = search.parts(outputs)
    return search.failed(number, outputs, refusal(code), is_alone=len(outputs) == 1)


def test_a_batch_of_which_none_is_refused_alone_was_too_large() -> None:
    """The next ones are halves, and in the end each message is one."""
    search, outputs = Search(100_000, clock=lambda: 0.0), [output(n, 1_000) for n in range(60)]
    sizes = []
    for _ in range(3):
        assert not failed(search, outputs)
        search.passed(outputs)
        assert not search.is_on
        sizes.append(search.batch_bytes)
    assert sizes == [30_000, BATCH_BYTES_MIN, ONE_BY_ONE]


def test_one_that_is_refused_alone_teaches_what_its_topic_takes() -> None:
    """For a time, and until one of that size is taken."""
    now_s = 100.0
    search = Search(100_000, clock=lambda: now_s)
    assert failed(search, [output(0, 900)])
    assert search.error_alike(output(1, 900)) is not None
    assert search.error_alike(output(1, 899)) is None
    assert search.error_alike(output(1, 900, topic="other")) is None
    again = output(0, 900)
    again.source.tries, again.source.may_go_s = 1, now_s + 1.0  # type: ignore[union-attr]
    assert search.error_alike(again) is None, "it may go since, so it is tried"
    now_s += TAUGHT_S
    assert search.error_alike(output(1, 900)) is None
    assert failed(search, [output(0, 900)])
    search.passed([again])
    assert search.error_alike(output(1, 900)) is None


@pytest.mark.parametrize(
    ("code", "key", "like", "other"),
    [
        (NO_KEY, None, output(1, 10, key=None), output(1)),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, b"k", output(1, 10), output(1, topic="other")),
    ],
)
def test_others_are_refused_for_the_same_reason(code: int, key: bytes, like: Output, other: Output) -> None:
    """Without a search for each."""
    search = Search(100_000, clock=lambda: 0.0)
    assert failed(search, [output(0, key=key)], code)
    assert search.error_alike(like) is not None
    assert search.error_alike(other) is None


def test_sizes_say_nothing_where_batches_are_compressed() -> None:
    """A larger one may be taken."""
    search = Search(100_000, clock=lambda: 0.0, are_sizes_known=False)
    assert failed(search, [output(0, 900)])
    assert search.error_alike(output(1, 900)) is None
