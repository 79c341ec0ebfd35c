"""What is sent as a type is read again as that type, whichever decoder reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest

from ehkafka.codecs import codec_for, codec_of_value
from ehkafka.codecs.encoding import _typed


class Mode(Enum):
    """Of a heater."""

    ON = "on"


class Place(NamedTuple):
    """A value of several parts."""

    floor: int
    room: str


@dataclass(frozen=True)
class Bill:
    """All that JSON has no word for, and a field that is private."""

    amount: Decimal
    since: timedelta
    seal: bytes
    tags: frozenset[str]
    days: dict[date, int]
    floors: dict[int, Place]
    at: datetime
    number: UUID
    mode: Mode = Mode.ON
    _note: str = ""


@pydantic.dataclasses.dataclass
class Checked:
    """Read by another name."""

    home_id: str = pydantic.Field(alias="homeId")


class Model(pydantic.BaseModel):
    """Read by other names, some of them made."""

    model_config = pydantic.ConfigDict(alias_generator=lambda name: name.upper())

    home_id: str
    checked: list[Checked] = []


class Struct(msgspec.Struct, rename="camel", tag=True):
    """Read by another name and a tag."""

    home_id: str
    bill: Bill | None = None


@dataclass
class Holder:
    """Of the standard library, and holds a model."""

    model: Model
    struct: list[Checked] = field(default_factory=list)


@dataclass
class Limited:
    """Has a rule of pydantic's."""

    celsius: Annotated[float, pydantic.Field(gt=-273)]


BILL = Bill(
    Decimal("1.10"),
    timedelta(minutes=1.5),
    b"\x00\xff",
    frozenset({"new"}),
    {date(2026, 1, 1): 1},
    {-1: Place(-1, "cellar")},
    datetime(2026, 1, 1, tzinfo=UTC),
    UUID(int=7),
    _note="mine",
)
MODEL = Model(HOME_ID="h", CHECKED=[{"homeId": "c"}])  # type: ignore[call-arg]

VALUES = [
    BILL,
    Checked(homeId="h"),
    MODEL,
    Struct("h", BILL),
    Holder(MODEL, [Checked(homeId="h")]),
    Limited(1.5),
    Place(1, "hall"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_typed_value_is_read_again_as_what_it_was(value: Any) -> None:
    """Alone, and among others."""
    kind: Any = type(value)
    assert codec_for(kind).decode(codec_of_value(value).encode(value)) == value
    assert codec_for(list[kind]).decode(codec_of_value([value]).encode([value])) == [value]


def test_a_models_own_word_on_its_names_counts() -> None:
    """`serialize_by_alias=False` is a wish of the class; to say nothing is none."""

    class Written(Model):
        model_config = pydantic.ConfigDict(serialize_by_alias=False)

    value = Written(HOME_ID="h")  # type: ignore[call-arg]
    assert codec_of_value(value).encode(value) == b'{"home_id":"h","checked":[]}'


def test_without_msgspec_a_dataclass_still_loses_no_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without the extra may send dataclasses, too."""

    @dataclass
    class Private:
        celsius: float
        place: Place
        _note: str

    _typed.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "msgspec", None)
    value = [Private(1.5, Place(1, "hall"), "mine")]
    try:
        assert codec_of_value(value).encode(value) == (b'[{"celsius":1.5,"place":[1,"hall"],"_note":"mine"}]')
    finally:
        _typed.cache_clear()


def test_pydantics_rules_count_wherever_they_are_written() -> None:
    """The other library would pass over them."""
    for kind, payload in ((Limited, b'{"celsius":-300}'), (Annotated[int, pydantic.Field(gt=3)], b"3")):
        codec = codec_for(kind)
        with pytest.raises(pydantic.ValidationError) as caught:
            codec.decode(payload)
        assert "greater than" in (codec.misfit(caught.value) or "")
