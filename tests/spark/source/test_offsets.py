"""What Spark writes down of a stream."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka import ConfigurationError
from ehkafka.records import TopicPartition
from ehkafka.spark.source.offsets import StreamOffset, decode, encode, read

POSITIONS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b.c", "Z-1"]), st.integers(0, 30)),
    st.integers(0, 2**62),
    max_size=20,
)


@given(POSITIONS, st.randoms())
def test_equal_positions_have_equal_text(positions: dict[TopicPartition, int], random: object) -> None:
    """Trap: Spark compares offsets as JSON text, and another key order made endless empty batches."""
    items = list(positions.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert encode(dict(items)) == encode(positions)
    assert json.dumps(StreamOffset(dict(items)).to_json()) == json.dumps(StreamOffset(positions).to_json())


IDS = st.dictionaries(st.sampled_from(["a", "b.c", "Z-1"]), st.binary(min_size=16, max_size=16))


@given(POSITIONS, st.none() | POSITIONS, st.none() | st.text(), IDS, POSITIONS)
def test_an_offset_is_read_as_it_was_written(
    positions: dict[TopicPartition, int],
    start: dict[TopicPartition, int] | None,
    group: str | None,
    ids: dict[str, bytes],
    anew: dict[TopicPartition, int],
) -> None:
    """Positions, the first batch's start, the group, ids and where new logs begin come back through JSON."""
    offset = StreamOffset(positions, start, group, topic_ids=ids, anew=anew)
    text = json.dumps(offset.to_json())
    assert read(text) == offset
    assert decode(text) == positions
    assert json.dumps(read(text).to_json()) == text


@given(IDS)
def test_equal_ids_have_equal_text(ids: dict[str, bytes]) -> None:
    """Trap: as positions do; and an offset without ids reads and is written as before there were any."""
    turned = dict(reversed(ids.items()))
    assert json.dumps(StreamOffset(topic_ids=turned).to_json()) == json.dumps(
        StreamOffset(topic_ids=ids).to_json()
    )
    assert StreamOffset({TopicPartition("a", 0): 3}).to_json() == {"a": {"0": 3}}


def test_the_shape_is_the_jvm_connectors() -> None:
    """A query's progress reads like the JVM connector's."""
    positions = {TopicPartition("readings", 10): 7, TopicPartition("readings", 2): 23}
    assert encode(positions) == '{"readings": {"2": 23, "10": 7}}'
    assert decode('{"readings":{"2":23,"10":7}}') == positions


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "[]", '{"a": 3}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', '{"a": {"0": -1}}'),
        *(
            '{"a": {"0": true}}',
            '{"#start": 3}',
            '{"#group": 1}',
            '{"#topics": {"a": 1}}',
            '{"#topics": {"a": "x"}}',
            '{"#anew": []}',
            '{"sourceVersion": {"version": 1}}',
        ),
    ],
)
def test_a_checkpoint_of_another_source_is_refused(text: str) -> None:
    """What is no offset of this source is one clear error."""
    with pytest.raises(ConfigurationError, match="checkpointLocation of its own"):
        read(text)
