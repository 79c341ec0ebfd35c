"""A range of a topic on a real broker, row by row beside what a plain loop over confluent-kafka gives."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
import ehkafka.arrow
from ehkafka.arrow import Ends
from ehkafka.embedded.topics import produce
from ehkafka.errors import OffsetGapError
from ehkafka.ranges.options import NAMES
from tests.arrow.conftest import offsets
from tests.kit.awkward_topics import awkward_topics
from tests.kit.topic_read import read_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

KINDS = ("plain", "appended", "compacted", "transactions")


@pytest.fixture(scope="module")
def topics(kafka: KafkaBroker) -> Iterator[dict[str, str]]:
    """Return topics of every kind by what they are; retention has taken the first of one partition."""
    with awkward_topics(kafka, 0.1) as names:
        kafka.delete_records(names["plain"], 1, 500)
        yield names


def _row(message: Message) -> dict[str, Any]:
    kind, milliseconds = message.timestamp()
    headers = [{"key": name, "value": value} for name, value in message.headers() or []]
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": milliseconds,
        "timestampType": kind - 1,
        "headers": headers or None,
    }


def _rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_every_range_has_the_rows_of_a_plain_loop(
    kafka: KafkaBroker, topics: dict[str, str], kind: str
) -> None:
    """Nulls, empty bytes, headers, five codecs, both timestamps, holes, aborted records; any range."""
    name, dice = topics[kind], random.Random(kind)
    endpoint = ehkafka.Endpoint.kafka(kafka.bootstrap)
    messages = read_messages(kafka.bootstrap, name, **{"auto.offset.reset": "earliest"})
    whole = ehkafka.arrow.read(endpoint, name, start="earliest", columns=NAMES)
    bounds = {one: (first, whole.stops[one]) for one, first in whole.starts.items()}
    ranges = [dict(bounds)] + [
        {one: tuple(sorted(dice.choices(range(first, end + 1), k=2))) for one, (first, end) in bounds.items()}
        for _ in range(5)
    ]
    for chosen in ranges:
        start, end = ({one: at[place] for one, at in chosen.items()} for place in (0, 1))
        reader = ehkafka.arrow.read(endpoint, name, start=start, end=end, columns=NAMES)
        table = reader.table()
        table.validate(full=True)
        expected = [one for one in messages if start[one.partition()] <= one.offset() < end[one.partition()]]
        for partition in chosen:
            ours = [row for row in _rows(table) if row["partition"] == partition]
            theirs = [_row(one) for one in expected if one.partition() == partition]
            assert ours == theirs, f"FACT: {kind}[{partition}] from {start} to {end} differs"
        assert reader.ends == end


def test_a_recreated_topic_is_noticed_by_its_id(kafka: KafkaBroker) -> None:
    """At the start of the next reading, and at the end of one in whose midst it was recreated."""
    name = f"readings-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 1)
    produce(kafka.bootstrap, name, [("k", b"old")] * 10)
    endpoint = ehkafka.Endpoint.kafka(kafka.bootstrap)
    reader, late = (ehkafka.arrow.read(endpoint, name, start="earliest") for _ in range(2))
    offsets(reader)
    assert reader.ends.topic_id
    assert not reader.ends.witnesses
    kafka.delete_topic(name)
    kafka.create_topic(name, 1)
    produce(kafka.bootstrap, name, [("k", b"new")] * 30)
    ends = Ends.from_json(reader.ends.to_json())
    with pytest.raises(OffsetGapError, match=rf"topic '{name}' had the id .* deleted and recreated"):
        ehkafka.arrow.read(endpoint, name, start=ends)
    assert offsets(ehkafka.arrow.read(endpoint, name, start=ends, on_loss="warn")) == {0: list(range(30))}
    with pytest.raises(OffsetGapError, match=rf"topic '{name}' had the id"):
        offsets(late)
