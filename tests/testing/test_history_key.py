"""Record keys survive a history's file."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.records import TopicPartition
from tests.kit.checker import history_event as events
from tests.kit.checker.history_file import OpaqueKey, decode_event, decode_key, encode_event, encode_key

P0 = TopicPartition("readings", 0)

KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=5,
)


@given(KEYS)
def test_keys_survive_the_file(key: Any) -> None:
    """A key read back equals the key written; what JSON cannot hold keeps a stable text."""
    event = events.Started(1, 2, "r", P0, 3, 4, key, 1)
    read: Any = decode_event(encode_event(event))
    if read != event:
        assert "OpaqueKey" in repr(read.key)
    assert decode_event(encode_event(read)) == read


def test_key_without_json_form_becomes_a_stable_text() -> None:
    """Equal keys stay equal, and no text can be taken for one."""
    key = uuid.UUID(int=1)
    opaque = decode_key(encode_key(key))
    assert opaque == OpaqueKey(repr(key))
    assert opaque == decode_key(encode_key(uuid.UUID(int=1)))
    assert opaque != decode_key(encode_key(repr(key)))
    assert decode_key(encode_key(2**70)) == OpaqueKey(str(2**70))
    assert decode_key(encode_key(b"1")) != decode_key(encode_key("1"))
