"""What Spark writes down of a stream."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.offset_text import is_sayable
from ehkafka.records import TopicPartition
from ehkafka.spark.source.offsets import StreamOffset, encode, read

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


WITNESSES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b.c", "Z-1"]), st.integers(0, 600)),
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**48 - 1)),
    max_size=20,
)


@given(POSITIONS, st.none() | POSITIONS, st.none() | st.text(), IDS, POSITIONS, WITNESSES, POSITIONS)
def test_an_offset_is_read_as_it_was_written(
    positions: dict[TopicPartition, int],
    start: dict[TopicPartition, int] | None,
    group: str | None,
    ids: dict[str, bytes],
    anew: dict[TopicPartition, int],
    witnesses: dict[TopicPartition, tuple[int, int]],
    ends: dict[TopicPartition, int],
) -> None:
    """Positions, the first batch's start, the group, what tells its logs and their ends come back by JSON."""
    offset = StreamOffset(positions, start, group, topic_ids=ids, anew=anew, witnesses=witnesses, ends=ends)
    text = json.dumps(offset.to_json())
    assert read(text) == offset
    assert read(text).log_ends == {**positions, **ends}
    assert read(text).positions == positions
    assert json.dumps(read(text).to_json()) == text


@given(IDS)
def test_equal_ids_have_equal_text(ids: dict[str, bytes]) -> None:
    """Trap: as positions do; and an offset without ids reads and is written as before there were any."""
    turned = dict(reversed(ids.items()))
    assert json.dumps(StreamOffset(topic_ids=turned).to_json()) == json.dumps(
        StreamOffset(topic_ids=ids).to_json()
    )
    assert StreamOffset({TopicPartition("a", 0): 3}).to_json() == {"a": {"0": 3}}


@given(WITNESSES, st.randoms())
def test_equal_witnesses_have_equal_text(
    witnesses: dict[TopicPartition, tuple[int, int]], random: object
) -> None:
    """Trap: as positions do; all of them can be said, and an offset without any is written as before."""
    items = list(witnesses.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert all(map(is_sayable, witnesses.values()))
    assert json.dumps(StreamOffset(witnesses=dict(items)).to_json()) == json.dumps(
        StreamOffset(witnesses=witnesses).to_json()
    )


@pytest.mark.parametrize("witness", [(-1, 0), (2**63, 0), (0, -1), (0, 2**48)])
def test_a_record_of_an_impossible_moment_is_not_carried(witness: tuple[int, int]) -> None:
    """A producer may write any 64 bits as a timestamp, and it must not end the query."""
    assert not is_sayable(witness)


def test_the_witnesses_of_many_partitions_take_little_room() -> None:
    """Five hundred of them: less than the positions that they are added to."""
    partitions = [TopicPartition("readings", number) for number in range(500)]
    positions = dict.fromkeys(partitions, 3_000_000_000)
    witnesses = dict.fromkeys(partitions, (2_999_999_998, 1_790_000_000_000))
    alone = len(json.dumps(StreamOffset(positions).to_json()))
    assert len(json.dumps(StreamOffset(positions, witnesses=witnesses).to_json())) < 2 * alone


def test_the_shape_is_the_jvm_connectors() -> None:
    """A query's progress reads like the JVM connector's."""
    positions = {TopicPartition("readings", 10): 7, TopicPartition("readings", 2): 23}
    assert encode(positions) == '{"readings": {"2": 23, "10": 7}}'
    assert read('{"readings":{"2":23,"10":7}}').positions == positions


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
            '{"#witness": []}',
            '{"#witness": {"a": 1}}',
            '{"#witness": {"a": ""}}',
            '{"#witness": {"a": "x"}}',
            '{"#witness": {"a": "\u00e9\u00e9\u00e9\u00e9"}}',
            '{"#witness": {"a": "AAAAAAAAAAA"}}',  # no filling
            '{"#witness": {"a": "AAAAAAAAAA=="}}',  # cut in the timestamp
            '{"#witness": {"a": "gAAAAAAAAAAA"}}',  # a number in more bytes than it needs
            '{"#witness": {"a": "AAAAAAAAAAAAAAAAAAAAAA=="}}',  # one partition twice
            '{"#witness": {"a": "/////////////////////w=="}}',  # another alphabet
            '{"#witness": {"a": "____________________"}}',  # a number without an end
            '{"sourceVersion": {"version": 1}}',
        ),
    ],
)
def test_a_checkpoint_of_another_source_is_refused(text: str) -> None:
    """What is no offset of this source is one clear error."""
    with pytest.raises(ConfigurationError, match="its own checkpointLocation"):
        read(text)
