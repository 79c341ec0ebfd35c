"""Names of keys and values of actions: what people and the network say is read, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.errors import ActionRefusedError
from ehkafka.records import TopicPartition
from ehkafka.run.steer.action import Action
from ehkafka.run.steer.keys import value_text
from ehkafka.run.steer.names import (
    head_name,
    key_text,
    keys_meant,
    parse_head,
    parse_partition,
    partition_name,
)

plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
keys = st.binary() | plain | st.tuples(plain, plain)


@given(keys)
def test_the_text_of_a_key_means_that_key(key: Any) -> None:
    """Whatever it is; other keys may be named so, too."""
    meant = keys_meant(key_text(key))
    assert any(type(one) is type(key) and one == key for one in meant)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """It means itself, at least."""
    parse_head(text)
    parse_partition(text)
    assert text in keys_meant(text)


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True), st.integers(0, 999), st.integers(0, 2**40))
def test_a_head_is_named_as_it_is_printed(topic: str, number: int, offset: int) -> None:
    """As lists print it, and as the log does."""
    partition = TopicPartition(topic, number)
    assert parse_head(head_name(partition, offset)) == (partition, offset)
    assert parse_head(f"{partition}@{offset}") == (partition, offset)
    assert parse_partition(partition_name(partition)) == parse_partition(str(partition)) == partition


@pytest.mark.parametrize("text", ["readings", "a/b@c", "@1", "/1@1", "a/1@-1", "a/1@", "a[1@1", "a/1/2@3"])
def test_other_texts_are_keys(text: str) -> None:
    """A key may look much like a head."""
    assert parse_head(text) is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"do": "skip", "target": "key"}, "needs name"),
        ({"do": "drop", "target": "key", "name": "a"}, "'drop' is not an action on a key"),
        ({"do": "skip", "target": "topic", "name": "a"}, "one of key, partition, handler"),
        ({"do": "skip", "target": "key", "name": ""}, "1 to 1000 characters"),
        ({"do": "skip", "target": "key", "name": "a" * 1_001}, "Name a longer key by"),
        ({"do": "skip", "target": "key", "name": "a", "offset": "1"}, "offset of an action must be int"),
        ({"do": "skip", "target": "key", "name": "a", "offset": True}, "offset of an action must be int"),
        ({"do": "skip", "target": "key", "name": "a", "force": True}, "has no field 'force'"),
        ({"do": "skip", "target": "key", "name": "a", "keep": True}, "work only with pause"),
        ({"do": "pause", "target": "key", "name": "a", "for_s": 0}, "more than 0 seconds"),
        ({"do": "pause", "target": "key", "name": "a", "for_s": float("nan")}, "more than 0 seconds"),
        ({"do": "retry", "target": "key", "name": "a", "all": True}, "all=True works only with skip and"),
        ({"do": "pause", "target": "handler", "name": "a"}, "not an action on a handler"),
        ({"do": ["skip"], "target": "key", "name": "a"}, "do of an action must be str"),
    ],
)
def test_what_is_no_action_is_refused(asked: dict[str, Any], says: str) -> None:
    """In one sentence that names what is wrong."""
    with pytest.raises(ActionRefusedError, match="^.*" + says.replace("(", r"\(")) as refused:
        Action.of(asked)
    assert refused.value.reason == "invalid"


@given(st.binary(max_size=2_000))
def test_a_value_is_one_line_of_visible_text(value: bytes) -> None:
    """Control characters are escaped, and what is long is cut."""
    text = value_text(value)
    assert text.isprintable()
    assert len(text) <= 4 * 400 + 30
