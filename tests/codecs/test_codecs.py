"""Codecs: what they decode, what they encode, and what they say of what does not fit."""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypedDict

import msgspec
import orjson
import pydantic
import pytest

from ehkafka.codecs import codec_for, codec_of_value, per_process
from ehkafka.codecs.custom import codec_of

SECRET = "hunter2"


class Mode(Enum):
    """A closed list."""

    ON = "on"


@dataclass
class Room:
    """A value inside of another."""

    name: str


@dataclass
class Reading:
    """A payload."""

    celsius: float
    rooms: list[Room]
    mode: Mode = Mode.ON

    def __post_init__(self) -> None:
        if self.celsius < -273:
            raise ValueError("colder than cold")


class Struct(msgspec.Struct):
    """A payload."""

    celsius: float


class Keyed(TypedDict):
    """A payload."""

    celsius: float


class Cat(pydantic.BaseModel):
    """One of two."""

    kind: str


class Model(pydantic.BaseModel):
    """A payload."""

    celsius: float
    rooms: list[Cat] = []

    @pydantic.field_validator("celsius")
    @classmethod
    def warm(cls, celsius: float) -> float:
        """Refuse what is too cold."""
        if celsius < -273:
            raise ValueError("colder than cold")
        return celsius


def why(kind: Any, payload: bytes) -> str | None:
    """Return why a payload does not fit."""
    codec = codec_for(kind)
    with pytest.raises(Exception) as caught:
        codec.decode(payload)
    return codec.misfit(caught.value)


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        (Reading, {"celsius": SECRET, "rooms": []}, "celsius: Expected `float`, got `str`"),
        (Reading, {"celsius": 1, "rooms": [{"name": 5}]}, "rooms[0].name: Expected `str`, got `int`"),
        (Reading, {"celsius": 1}, "Object missing required field `rooms`"),
        (Reading, {"celsius": 1, "rooms": [], "mode": SECRET}, "mode: Invalid enum value"),
        (Reading, {"celsius": -300, "rooms": []}, "colder than cold"),
        (Struct, [SECRET], "Expected `object`, got `array`"),
        (Keyed, {"celsius": None}, "celsius: Expected `float`, got `null`"),
        (dict, [SECRET], "it is a JSON array, not an object"),
        (list, SECRET, "it is a JSON string, not an array"),
        (Model, {"celsius": SECRET}, "celsius: Input should be a valid number, unable to parse"),
        (Model, {"celsius": 1, "rooms": [{}, {}]}, "rooms.0.kind: Field required (and 1 more)"),
        (Model, {"celsius": -300}, "celsius: Value error, colder than cold"),
    ],
)
def test_a_misfit_has_field_and_reason_and_shows_no_value(kind: Any, payload: Any, reason: str) -> None:
    """A letter and a log carry it."""
    found = why(kind, orjson.dumps(payload))
    assert found is not None
    assert found.startswith(reason)
    assert SECRET not in found


@pytest.mark.parametrize("kind", [Reading, Struct, Keyed, dict, list, Model, str, list[Reading], list[Model]])
@pytest.mark.parametrize("payload", [b"\xff\xfe", b'{"' + SECRET.encode() + b"\xff", b""])
def test_bytes_that_are_no_json_are_a_misfit(kind: Any, payload: bytes) -> None:
    """In one line that shows nothing of them; text takes an empty payload."""
    if (kind, payload) == (str, b""):
        assert codec_for(kind).decode(payload) == ""
        return
    found = why(kind, payload)
    assert found
    assert SECRET not in found
    assert "\n" not in found


def test_json_of_no_type_is_a_dict_or_a_list() -> None:
    """As it is written."""
    assert codec_for(dict).decode(b'{"a": [1]}') == {"a": [1]}
    assert codec_for(list).decode(b'[{"a": 1}]') == [{"a": 1}]


@pytest.mark.parametrize("kind", [dict, Reading, Struct, Keyed, Model])
def test_what_the_page_says_of_nan_and_of_equal_keys(kind: Any) -> None:
    """Only pydantic accepts what is not JSON; every reader takes the last of two equal keys."""
    decode = codec_for(kind).decode
    for word in (b"NaN", b"Infinity"):
        payload = b'{"celsius": ' + word + b', "rooms": []}'
        if kind is Model:
            assert not math.isfinite(decode(payload).celsius)
        else:
            with pytest.raises(ValueError, match=r"."):
                decode(payload)
    found = decode(b'{"celsius": 1, "celsius": 2, "rooms": []}')
    assert (found["celsius"] if isinstance(found, dict) else found.celsius) == 2


def test_a_long_reason_is_cut() -> None:
    """A payload's own names are in it."""
    found = why(dict[str, int], b'{"%s": "x"}' % (b"k" * 10_000))
    assert found is not None
    assert len(found) <= 201


def test_an_error_that_is_not_the_payloads_is_no_misfit() -> None:
    """A validator that is broken fails as a handler does."""
    for kind in (Reading, Model, dict, str, bytes):
        assert codec_for(kind).misfit(ConnectionError("down")) is None
        assert codec_for(kind).misfit(KeyError("x")) is None


@pytest.mark.parametrize(
    ("value", "encoded", "content_type"),
    [
        (b"\x00", b"\x00", None),
        (bytearray(b"x"), b"x", None),
        ("ü", "ü".encode(), "text/plain; charset=utf-8"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
        (OrderedDict(a=1), b'{"a":1}', "application/json"),
        ([1.5], b"[1.5]", "application/json"),
        (7, b"7", "application/json"),
        (
            Reading(1.0, [Room("x")]),
            b'{"celsius":1.0,"rooms":[{"name":"x"}],"mode":"on"}',
            "application/json",
        ),
        (Struct(1.0), b'{"celsius":1.0}', "application/json"),
        (Cat(kind="x"), b'{"kind":"x"}', "application/json"),
        ([Struct(1.0), Cat(kind="x")], b'[{"celsius":1.0},{"kind":"x"}]', "application/json"),
        (datetime(2026, 1, 1, tzinfo=UTC), b'"2026-01-01T00:00:00+00:00"', "application/json"),
    ],
)
def test_values_are_encoded_by_what_they_are(value: Any, encoded: bytes, content_type: str | None) -> None:
    """Values inside of others, too."""
    codec = codec_of_value(value)
    assert (codec.encode(value), codec.content_type) == (encoded, content_type)


@pytest.mark.parametrize("value", [None, object(), Reading, lambda: None, {1, 2}])
def test_a_value_that_no_codec_encodes_is_refused(value: Any) -> None:
    """By the kind that it is of, not by what it holds."""
    with pytest.raises(TypeError, match="cannot be sent as the value of a message: give a dataclass"):
        codec_of_value(value)


@pytest.mark.parametrize("value", [{"a": object()}, {1: 2}, [{1, 2}]])
def test_what_json_cannot_say_is_refused_without_a_value(value: Any) -> None:
    """Once it is encoded."""
    with pytest.raises(TypeError, match=r"a (dict|list) cannot be sent as JSON"):
        codec_of_value(value).encode(value)


@pytest.mark.parametrize(
    "kind", [Reading, Struct, Keyed, Model, dict, list[Reading], Reading | None, str, bytes]
)
def test_codecs_go_to_other_processes(kind: Any) -> None:
    """By the type that they are for."""
    before = codec_for(kind)
    after = pickle.loads(pickle.dumps(before))
    payload = b'[{"celsius": 1, "rooms": []}]' if kind == list[Reading] else b'{"celsius": 1, "rooms": []}'
    assert after.decode(payload) == before.decode(payload)
    assert after.name == before.name


def decode_badly(value: bytes) -> object:
    """Fail with a text that repeats the payload."""
    return int(value)


class Registry:
    """What is made once in each process."""

    made = 0


def make_decoder() -> Any:
    """Make one."""
    Registry.made += 1
    return decode_badly


def test_an_own_decoder_is_blamed_by_kind_and_line() -> None:
    """Its text may repeat a secret."""
    codec = codec_of(decode_badly)
    with pytest.raises(ValueError, match=SECRET) as caught:
        codec.decode(SECRET.encode())
    reason = codec.misfit(caught.value)
    assert reason is not None
    assert reason.startswith("ValueError at ")
    assert reason.endswith("in decode_badly")
    assert SECRET not in reason
    assert codec.misfit(ConnectionError("down")) is None
    assert codec.misfit(RuntimeError("a bug")) is None


def test_a_librarys_decoder_names_the_field() -> None:
    """As its type would."""
    codec = codec_of(msgspec.json.Decoder(Struct).decode)
    with pytest.raises(msgspec.ValidationError) as caught:
        codec.decode(b'{"celsius": "hunter2"}')
    assert codec.misfit(caught.value) == "celsius: Expected `float`, got `str`"


class Valued:
    """A record, as far as a decoder sees it."""

    def value(self) -> bytes:
        """Return it."""
        return b"12"


def test_a_decoder_of_each_process_is_made_there_and_once() -> None:
    """It is pickled by what makes it."""
    codec = pickle.loads(pickle.dumps(per_process(make_decoder)))
    before = Registry.made
    assert [codec.decode_message(Valued()) for _ in range(3)] == [12, 12, 12]
    assert Registry.made == before + 1
