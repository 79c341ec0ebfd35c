"""How far a topic was read, kept as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.arrow.ends import Ends
from ehkafka.errors import ConfigurationError
from ehkafka.records import TopicPartition

OFFSETS = st.integers(0, 2**63 - 1)
RECORDS = st.tuples(OFFSETS, st.integers(0, 2**48 - 1))


@given(
    st.dictionaries(st.integers(0, 2**31 - 1), OFFSETS, min_size=1),
    st.none() | st.binary(min_size=16, max_size=16),
    st.dictionaries(st.integers(0, 2**31 - 1), RECORDS),
)
def test_what_was_written_is_read_again(
    numbers: dict[int, int], topic_id: bytes | None, records: dict[int, tuple[int, int]]
) -> None:
    """Offsets, the topic's id and the records; equal ends have equal text, however they were made."""
    witnesses = {TopicPartition("t", number): one for number, one in records.items()}
    ends = Ends("t", numbers, topic_id, witnesses)
    read = Ends.from_json(ends.to_json())
    assert (read.topic, read.topic_id, read.witnesses) == ("t", topic_id, witnesses)
    assert read == ends == numbers
    turned = Ends("t", dict(reversed(numbers.items())), topic_id, dict(reversed(witnesses.items())))
    assert turned.to_json() == ends.to_json()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "{}",
        '{"t": 3}',
        '{"t": {}}',
        '{"t": {"0": -1}}',
        '{"t": {"0": "1"}}',
        '{"t": {"0": 1}, "u": {"0": 1}}',
        '{"t": {"0": 1}, "#topics": {"t": "xy"}}',
        '{"t": {"0": 1}, "#topics": 3}',
        '{"t": {"0": 1}, "#witness": {"t": "AA"}}',
        '{"t": {"0": 1',
        json.dumps({"t": {"0": 1}})[:-1],
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    """A file that was cut, or is another one, must not begin a job somewhere."""
    with pytest.raises(ConfigurationError, match=r"was not written by Ends\.to_json\(\)"):
        Ends.from_json(text)
