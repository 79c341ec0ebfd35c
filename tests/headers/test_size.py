"""The size of a record is all that is held of it, however its headers are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.headers.size import size_of, sizes_of
from ehkafka.headers.taking import have_headers
from tests.kit.simulated.message import SimulatedMessage

_some_bytes = st.none() | st.binary(max_size=200)
_messages = st.lists(
    st.builds(
        lambda key, value, headers: SimulatedMessage("t", 0, 0, key, value, headers=headers),
        _some_bytes,
        _some_bytes,
        st.none() | st.lists(st.tuples(st.text(max_size=5), _some_bytes), max_size=3),
    ),
    min_size=1,
    max_size=9,
)


def _plainly(message: SimulatedMessage) -> int:
    names = sum(len(name.encode(errors="replace")) for name, _ in message.headers() or ())
    values = sum(len(value or b"") for _, value in message.headers() or ())
    return len(message.key() or b"") + len(message.value() or b"") + names + values


@given(_messages)
def test_value_key_and_headers_count(messages: list[SimulatedMessage]) -> None:
    """One by one and together: all the same."""
    expected = [_plainly(message) for message in messages]
    assert sizes_of(messages) == expected
    assert [size_of(message) for message in messages] == expected


def test_nothing_has_no_size() -> None:
    """A batch of which nothing is left."""
    assert sizes_of([]) == []


class _Unreadable(SimulatedMessage):
    """Fails as confluent-kafka does for a header name that is no UTF-8: once, and then worse."""

    asked = 0
    replaced: Any = None

    def headers(self) -> Any:
        if self.replaced is not None:
            return self.replaced
        self.asked += 1
        if self.asked == 1:
            raise SystemError("no UTF-8")
        assert self.asked == 2, "a pair without a name was handed out"
        return [_NoName()]

    def set_headers(self, headers: Any) -> None:
        self.replaced = headers


class _NoName:
    """A pair whose name must not be touched."""

    def __repr__(self) -> str:
        return "(<NULL>, b'12')"

    def __getitem__(self, place: int) -> bytes:
        assert place == 1, "the name was touched"
        return b"12"

    def __iter__(self) -> Any:
        raise AssertionError("the name was touched")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_unreadable_name_is_replaced_when_sizes_are_taken(place: int) -> None:
    """Wherever it stands in its batch, no handler gets a pair without a name."""
    messages = [_Unreadable("t", 0, offset, None, b"v") for offset in range(3)]
    for offset, message in enumerate(messages):
        if offset != place:
            message.replaced = []
    assert have_headers(messages)
    assert messages[place].replaced == [("\ufffd", b"12")]
    assert sizes_of(messages) == [1 + (5 if offset == place else 0) for offset in range(3)]
