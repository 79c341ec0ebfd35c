"""What a handler says of an output in addition to its value: fitting, or an error of its own attempt."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ehkafka.outputs.encoding import checked_pairs, checked_partition, encoded
from ehkafka.outputs.send import Send, sends_of


class Place(NamedTuple):
    """A value of two parts."""

    floor: int
    room: str


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        (None, []),
        ({}, []),
        ((), []),
        ({"a": "b", "c": b"\xff", "d": None}, [("a", b"b"), ("c", b"\xff"), ("d", None)]),
        ([("a", "b"), ["a", "c"]], [("a", b"b"), ("a", b"c")]),
        (iter([("a", "b")]), [("a", b"b")]),
    ],
)
def test_headers_are_pairs_or_a_mapping(given: Any, pairs: list[Any]) -> None:
    """In their order, several of one name too."""
    assert checked_pairs(given) == pairs


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ab", "is a str: give a mapping"),
        (5, "is a int: give a mapping"),
        (0, "is a int: give a mapping"),
        (["ab"], "is a str: give a mapping"),
        ([("a", "b", "c")], "is a tuple: give a mapping"),
        ({5: "a"}, "the name of an output's header is of type int"),
        ({b"a": "a"}, "the name of an output's header is of type bytes"),
        ({"a": 5}, "header 'a' of an output is of type int: give text, bytes or None"),
        ({"a": bytearray(b"x")}, "header 'a' of an output is of type bytearray"),
        ({"a\0b": "c"}, "contains a NUL character"),
    ],
)
def test_what_is_no_header_is_named(given: Any, words: str) -> None:
    """Before the client is asked, whose error would not look like an error of the handler."""
    with pytest.raises((TypeError, ValueError), match=words):
        checked_pairs(given)


@pytest.mark.parametrize(("given", "number"), [(None, -1), (-1, -1), (0, 0), (31, 31)])
def test_a_partition_is_a_number_or_none(given: Any, number: int) -> None:
    """None: the key decides."""
    assert checked_partition(given) == number


@pytest.mark.parametrize("given", ["0", -2, True, 1.0, 2**31, b"0"])
def test_what_is_no_partition_is_refused(given: Any) -> None:
    """Also what the client would take for another number."""
    with pytest.raises(ValueError, match="an output's partition is"):
        checked_partition(given)


def test_a_tuple_with_names_is_one_value() -> None:
    """As a dataclass is; a plain tuple is several."""
    assert [one.value for one in sends_of(Place(1, "hall"))] == [Place(1, "hall")]
    assert [one.value for one in sends_of((1, "hall"))] == [1, "hall"]
    assert encoded(Place(1, "hall")) == (b'[1,"hall"]', "application/json")


def test_a_message_within_a_message_is_refused() -> None:
    """`record.send(Send(…))` is a slip that JSON would explain badly."""
    with pytest.raises(TypeError, match=r"call record.send\(value, key=…\)"):
        encoded(Send(Send("x")))
    with pytest.raises(TypeError, match="a Send cannot be the value of another message"):
        encoded(Send("x"))
