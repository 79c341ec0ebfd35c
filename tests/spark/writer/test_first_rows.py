"""The first row of each partition goes before all others, whichever partitions the client would choose."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.outputs.properties import PARTITIONERS
from ehkafka.spark.writer.first_rows import FirstRows
from ehkafka.testing import EmbeddedBroker

COUNT = 5
KEYS = [None, b"", *(b"key-%d" % number * (number % 4) + b"\xff" * (number % 5) for number in range(60))]


def row(key: bytes | None = None, partition: int = -1, *, topic: str = "readings") -> tuple[Any, ...]:
    """Return a row as it is handed to a client."""
    return topic, b"v", key, partition, None


def taken(sent: list[Message], error: object, message: Message) -> None:
    """Take a delivery report."""
    assert error is None
    sent.append(message)


def test_a_keys_partition_is_the_clients() -> None:
    """For each partitioner that an option may name; where the client chooses at random, any will do."""
    with EmbeddedBroker({"readings": COUNT}) as broker:
        for partitioner in PARTITIONERS:
            sent: list[Message] = []
            given = {"bootstrap.servers": broker.bootstrap, "partitioner": partitioner}
            client = Producer({**given, "on_delivery": partial(taken, sent)})
            for key in KEYS:
                client.produce("readings", key=key)
            assert client.flush(30) == 0
            found = {one.key(): one.partition() for one in sent}
            first_rows = FirstRows(partitioner, lambda _: COUNT)
            first_rows.split([], ["readings"])
            for key in KEYS:
                assert first_rows._partition("readings", key, -1) in {None, found[key]}, (partitioner, key)
            has_order = first_rows._partition("readings", b"key", -1) is not None
            assert has_order == (partitioner != "random")


ROWS = st.builds(
    row,
    st.sampled_from([None, b"", b"a", b"b", b"c", b"d", b"e", b"f"]),
    st.sampled_from([-1, -1, -1, 0, 4]),
    topic=st.sampled_from(["readings", "alerts"]),
)


@given(st.lists(st.lists(ROWS, max_size=8), max_size=4))
def test_no_partition_gets_a_second_row_before_its_first_one_is_written(
    portions: list[list[tuple[Any, ...]]],
) -> None:
    """Rows of a key stay in their order, and none is left out."""
    first_rows = FirstRows("murmur2_random", lambda _: COUNT)
    written: set[tuple[str, int]] = set()
    for portion in portions:
        numbered = [(topic, number, *more) for number, (topic, _, *more) in enumerate(portion)]
        firsts, rest = first_rows.split(numbered, {one[0] for one in portion})
        places = [(one[0], first_rows._partition(one[0], *one[2:4])) for one in firsts]
        assert len(places) == len(set(places))
        assert written.isdisjoint(places)
        written.update(places)
        order = [*firsts, *rest]
        for topic, _, key, partition, _ in order[len(firsts) :]:
            number = first_rows._partition(topic, key, partition)
            its = range(COUNT) if number is None else [number]
            assert written.issuperset((topic, one) for one in its)
        assert sorted(one[1] for one in order) == [*range(len(portion))]
        for topic, key in {(one[0], one[2]) for one in portion if one[2] is not None and one[3] == -1}:
            its = [one[1] for one in order if one[::2][:2] == (topic, key) and portion[one[1]][3] == -1]
            assert its == sorted(its)


@pytest.mark.parametrize("partitioner", ["murmur2_random", "random"])
def test_rows_that_may_go_anywhere_begin_all_partitions_at_once(partitioner: str) -> None:
    """Not one partition after another, with a wait for each."""
    first_rows = FirstRows(partitioner, lambda _: COUNT)
    firsts, others = first_rows.split([row()] * 8, ["readings"])
    assert sorted(one[3] for one in firsts) == [*range(COUNT)]
    assert others == [row()] * 3
    rows = iter([row(b"a")])
    assert first_rows.split(rows, ["readings"]) == ([], rows)
    first_rows.forget()
    assert len(first_rows.split([row(b"a")], ["readings"])[0]) == 1


def test_rows_that_may_go_anywhere_go_to_no_partition_more_often_than_to_others() -> None:
    """Short tasks, each with a client of its own, would otherwise fill partition 0 alone."""
    begun = {
        FirstRows("murmur2_random", lambda _: COUNT).split([row()], ["readings"])[0][0][3] for _ in range(100)
    }
    assert begun == {*range(COUNT)}


def test_the_client_chooses_a_keys_partition_also_where_the_topic_has_grown() -> None:
    """A key's first row would otherwise be the only one in its old partition."""
    counts = iter([4, 8])
    first_rows = FirstRows("murmur2_random", lambda _: next(counts))
    for _ in range(2):
        [first], _ = first_rows.split([row(b"a")], ["readings"])
        assert first == row(b"a")
        first_rows.forget()


def test_long_keys_are_not_kept() -> None:
    """A worker process keeps its client for hours."""
    first_rows = FirstRows("murmur2_random", lambda _: COUNT)
    assert first_rows._known_hash is not None
    first_rows.split([row(b"a" * 2_000), row(b"a")], ["readings"])
    assert first_rows._known_hash.cache_info().currsize == 1
