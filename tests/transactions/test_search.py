"""How refused outputs are found: just those, in few tries, whatever stands next to them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from ehkafka.events import TransactionAborted
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.batch import BATCH_BYTES, BATCH_BYTES_MIN, ONE_BY_ONE, smaller_batches
from ehkafka.outputs.output import Output, OutputRefusedError
from ehkafka.records import TopicPartition
from ehkafka.transactions.handing import BATCHES_MAX, with_alike
from tests.kit.simulated.message import SimulatedMessage
from tests.transactions.loop_bench import Bench

EPOCH = Epoch(TopicPartition("in", 0), 1, {})
TOO_LARGE = OutputRefusedError("no", KafkaError.MSG_SIZE_TOO_LARGE)


def output(size: int, *, topic: str = "out", headers: Any = None) -> Output:
    """Return one of so many bytes."""
    way: Any = None
    source = (SimulatedMessage("in", 0, 0, b"k"), b"k", 1, EPOCH)
    return Output(way, source, topic, bytes(size - 1), b"k", headers, -1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_just_the_refused_ones_are_found_and_each_key_keeps_its_order(seed: int) -> None:
    """However many there are, and whether a batch of them is too large or not."""
    rng = random.Random(seed)
    bench, count = Bench(), rng.choice([1, 3, 40, 700])
    bench.broker.batch_max = rng.choice([40, 2_000, 10**6])
    wrong = {number for number in range(count) if rng.random() < rng.choice([0, 0, 0.005, 0.05])}
    for number in range(count):
        bench.add(number, key=b"%d" % (number % rng.choice([1, 7])))
    bench.broker.refuses = {b"%d" % number for number in wrong}
    bench.answers = [None] * count
    for _ in range(10):  # a batch that is too large may have to be made smaller several times
        if bench.run(count) is None:
            break
    assert sorted(int(asked.value) for asked, *_ in bench.judged) == sorted(wrong)
    assert list(map(int, bench.visible.split())) == [n for n in range(count) if n not in wrong]
    assert bench.broker.aborted <= 4 * (len(wrong) + 3)


def test_one_of_many_costs_three_transactions() -> None:
    """Its batch, a part of it, and itself alone."""
    bench = Bench()
    bench.add(*range(5 * BATCHES_MAX))
    bench.answers = [None]
    bench.broker.refuses = {b"777"}
    assert bench.run(5 * BATCHES_MAX) is None
    assert bench.broker.aborted == 3
    assert [asked.value for asked, *_ in bench.judged] == [b"777"]
    assert Counter(map(type, bench.events))[TransactionAborted] == 1


def test_of_those_that_are_tried_again_only_some_are_tried_at_once() -> None:
    """Each costs a request, and the transaction's time has an end."""
    bench, count = Bench(), BATCHES_MAX + 50
    bench.add(*range(count))
    bench.broker.refuses = {b"%d" % number for number in range(count)}
    for _ in range(count):
        bench.run(count)
        for *_, answer in bench.judged:
            answer(-1.0)
    bench.broker.refuses, bench.broker.calls = set(), []
    assert bench.run(count) is None
    assert bench.broker.calls.count("produce") <= BATCHES_MAX + count


def test_what_is_too_large_for_a_topic_says_so_of_larger_ones() -> None:
    """And of none that is smaller, nor of another topic's."""
    outputs = [output(900), output(899), output(900, topic="other"), output(901), output(900)]
    assert with_alike(outputs, {0: TOO_LARGE}) == {0: TOO_LARGE, 3: TOO_LARGE, 4: TOO_LARGE}
    other = OutputRefusedError("no", KafkaError.POLICY_VIOLATION)
    assert with_alike(outputs, {0: other}) == {0: other}
    # Headers are not in the size, so what is too large by them says nothing of others.
    outputs = [output(10, headers=[("h", bytes(60_000))]), output(900)]
    assert with_alike(outputs, {0: TOO_LARGE}) == {0: TOO_LARGE}


@pytest.mark.parametrize(
    ("refused_bytes", "sizes"),
    [
        (None, [BATCH_BYTES // 4, BATCH_BYTES // 16, BATCH_BYTES_MIN, ONE_BY_ONE]),
        (120_000, [30_000, BATCH_BYTES_MIN, ONE_BY_ONE]),
    ],
)
def test_batches_get_smaller_until_each_message_is_one(refused_bytes: int | None, sizes: list[int]) -> None:
    """By quarters of what they could have, or of what was refused."""
    found, batch_bytes = [], None
    while batch_bytes != ONE_BY_ONE:
        batch_bytes = smaller_batches(batch_bytes, refused_bytes)
        found.append(batch_bytes)
    assert found == sizes


def test_outputs_that_are_refused_together_twice_get_smaller_batches() -> None:
    """Whatever the broker says of them; once may have been a whim. Else no commit would ever succeed."""
    bench = Bench()
    for offset in range(90):
        bench.put(offset, b"%d" % offset + b"-" * 998)
    bench.broker.batch_max, bench.broker.batch_code = 50_000, KafkaError.POLICY_VIOLATION
    assert bench.run(90) is not None
    assert bench.producer.limit == {"batch.num.messages": 1}
    assert bench.run(90) is None
    assert (bench.judged, len(bench.broker.visible)) == ([], 90)
