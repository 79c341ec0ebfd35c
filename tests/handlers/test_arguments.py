"""What a handler's parameters ask for: chosen by annotation, and refused where it cannot be known."""

# ruff: noqa: D102, D103, TC002 - what is read here are annotations alone

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NewType, Protocol, TypedDict, TypeVar

import confluent_kafka
import msgspec
import orjson
import pydantic
import pytest
from typing_extensions import TypeAliasType

import ehkafka
from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.handlers.arguments import payload_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal as Unreachable


@dataclass
class Reading:
    """A payload."""

    celsius: float


class Struct(msgspec.Struct):
    """A payload."""

    celsius: float


class Model(pydantic.BaseModel):
    """A payload."""

    celsius: float


class Keyed(TypedDict):
    """A payload."""

    celsius: float


class Valued(Protocol):
    """What a record is, too."""

    def value(self) -> bytes | None:
        """Return it."""


class Stranger:
    """What no codec knows."""


Anything = TypeVar("Anything")


def bare(reading): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
def of_record(reading: ehkafka.Record) -> None: ...
def of_message(reading: confluent_kafka.Message) -> None: ...
def of_any(reading: Any) -> None: ...
def of_object(reading: object) -> None: ...
def of_protocol(reading: Valued) -> None: ...
def of_variable(reading: Anything) -> Anything: ...  # type: ignore[empty-body]
def of_either(reading: ehkafka.Record | confluent_kafka.Message) -> None: ...
def of_one_for_type_checkers(record: Message) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def of_anything(*given: Reading) -> None: ...
def with_settings(record, settings: Reading = Reading(1.0)): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, B008


@pytest.mark.parametrize(
    "function",
    [
        bare,
        of_record,
        of_message,
        of_any,
        of_object,
        of_protocol,
        of_variable,
        of_either,
        of_one_for_type_checkers,
        of_anything,
        with_settings,
        print,
        lambda record: record,
    ],
)
def test_what_says_nothing_about_a_payload_gets_the_record(function: Any) -> None:
    """As it always was: a name alone chooses nothing."""
    assert payload_of(function) is None


def alone(record: Reading) -> None: ...
def second(it: ehkafka.Record, reading: Reading) -> None: ...
def first(reading: Reading, it: ehkafka.Record) -> None: ...
def beside_bare(it, reading: Reading) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001


@pytest.mark.parametrize(
    ("function", "arguments", "place"),
    [
        (alone, ("record",), 0),
        (second, ("it", "reading"), 1),
        (first, ("reading", "it"), 0),
        (beside_bare, ("it", "reading"), 1),
    ],
)
def test_an_annotation_chooses_and_not_a_name(function: Any, arguments: tuple[str, ...], place: int) -> None:
    """Also where the payload is called `record`."""
    payload = payload_of(function)
    assert payload is not None
    assert (payload.arguments, payload.place, payload.optional) == (arguments, place, False)
    assert payload.codec.decode(b'{"celsius": 1.5}') == Reading(1.5)


def annotated(kind: Any) -> Callable[..., None]:
    """Return a handler of this type."""

    def handle(reading: Any) -> None: ...

    handle.__annotations__["reading"] = kind
    return handle


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Reading, Reading(1.5)),
        (Struct, Struct(1.5)),
        (Model, Model(celsius=1.5)),
        (Keyed, {"celsius": 1.5}),
        (dict, {"celsius": 1.5}),
        (dict[str, float], {"celsius": 1.5}),
        (Annotated[Reading, "of a room"], Reading(1.5)),
        (str, '{"celsius": 1.5}'),
        (bytes, b'{"celsius": 1.5}'),
        (bytearray, bytearray(b'{"celsius": 1.5}')),
        (Annotated[bytes, "as they came"], b'{"celsius": 1.5}'),
        (Annotated[str, "as it came"], '{"celsius": 1.5}'),
        (Annotated[dict, "an object"], {"celsius": 1.5}),
        (NewType("Raw", bytes), b'{"celsius": 1.5}'),
        (NewType("Alias", Reading), Reading(1.5)),
        (TypeAliasType("Named", bytes), b'{"celsius": 1.5}'),
        (TypeAliasType("Either", Reading | None), Reading(1.5)),
        (Reading | None, Reading(1.5)),
        ("Reading | None", Reading(1.5)),
    ],
)
def test_types_that_are_known(kind: Any, value: object) -> None:
    """A type says how it is decoded, `| None` that tombstones are wanted."""
    payload = payload_of(annotated(kind))
    assert payload is not None
    assert payload.codec.decode(b'{"celsius": 1.5}') == value
    assert payload.optional is ("None" in str(getattr(kind, "__value__", kind)))


class Handler:
    """A class handler."""

    def process(self, reading: Reading) -> None: ...


class Callable_:  # noqa: N801 - an object that is called
    """A handler that is an object."""

    def __call__(self, reading: Reading) -> None: ...

    def method(self, reading: Reading) -> None: ...


def logged(function: Any) -> Any:
    """Wrap as most decorators do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def with_more(more: int, reading: Reading) -> None: ...


@pytest.mark.parametrize(
    "function", [Handler, Callable_(), Callable_().method, logged(alone), functools.partial(with_more, 1)]
)
def test_whatever_is_called_is_read(function: Any) -> None:
    """Classes, objects, methods, partials and wrappers that hand everything on."""
    payload = payload_of(function)
    assert payload is not None
    assert payload.codec.name == "Reading"
    assert len(payload.arguments) == 1


def app() -> ehkafka.App:
    """Return an app that is never started."""
    return ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("localhost:9092"), start="earliest")


def test_a_class_that_is_only_local_is_found() -> None:
    """Annotations are text here, and the decorator stands where their names are."""

    @dataclass
    class Local:
        celsius: float

    @app().handler("readings")
    def handle(reading: Local) -> None: ...

    def of_enclosed() -> Any:
        def handle(reading: Local) -> Local:
            return Local(reading.celsius)

        return handle

    assert payload_of(of_enclosed()) is not None
    with pytest.raises(ConfigurationError, match=r"annotation 'Local' of reading cannot be read"):
        payload_of(handle)


def unreachable(reading: Unreachable) -> None: ...
def two(reading: Reading, other: Struct) -> None: ...
def strange(reading: Stranger) -> None: ...
def strange_inside(reading: dict[str, Stranger]) -> None: ...
def nothing(reading: None) -> None: ...
def only_record(record: ehkafka.Record) -> None: ...
def of_three(record: ehkafka.Record, reading: Reading, database) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
def of_three_bare(record, reading, database): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
def with_default(record: ehkafka.Record, reading: Reading | None = None) -> None: ...
def of_batch(batch: ehkafka.Batch) -> None: ...
def of_typed_batch(batch: ehkafka.Batch[Reading]) -> None: ...
def of_list(readings: list[Reading]) -> None: ...
def of_records(records: list[ehkafka.Record]) -> None: ...
def of_batch_value(batch: ehkafka.Batch[Unreachable]) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (unreachable, {}, r"handler 'unreachable': the annotation 'Unreachable' of reading .*TYPE_CHECKING"),
        (two, {}, "parameters reading and other both have a payload type"),
        (strange, {}, "no codec knows the type Stranger: use a dataclass"),
        (strange_inside, {}, r"no codec knows the type Stranger, a field type inside dict"),
        (nothing, {}, "None is not a payload type"),
        (alone, {"raw": True}, "raw=True passes confluent's Message"),
        (bare, {"raw": True, "value": dict}, "raw=True passes confluent's Message"),
        (only_record, {"value": Reading}, "the handler has no parameter for it"),
        (bare, {"value": dict, "decoder": orjson.loads}, "leave one of the two out"),
        (bare, {"decoder": "json"}, "decoder=a str is not a function"),
        (bare, {"decoder": Stranger}, "decoder=Stranger is not a function"),
        (bare, {"decoder": lambda: 1}, r"takes \(\), but is called with 1 argument, value"),
        (bare, {"decoder": lambda a, b, c: 1}, r"takes \(a, b, c\), but is called with 1 argument"),
        (bare, {"decoder": lambda value, *, more: 1}, r"takes \(value, \*, more\)"),
        (bare, {"decoder": lambda value: (yield value)}, "contains `yield`"),
        (
            of_three,
            {},
            r"parameters are \(record, reading, database\), but a handler is called only with the record",
        ),
        (of_three_bare, {"value": Reading}, "only with the record and its payload"),
        (with_default, {}, "has a default, so it would be None for every record: leave the default out"),
        (of_batch, {}, r"batch is a Batch, .*: write @app.batch_handler"),
        (of_typed_batch, {}, r"batch is a Batch, .*: write @app.batch_handler"),
        (of_records, {}, r"records is .* several records.*: write @app.batch_handler.*ehkafka.Batch"),
    ],
)
def test_mistakes_are_refused_at_registration(function: Any, options: dict[str, Any], words: str) -> None:
    """One error each, which names the handler and what to do."""
    with pytest.raises(ConfigurationError, match=words):
        app().handler("readings", **options)(function)


@pytest.mark.parametrize("function", [of_list, alone, only_record, annotated(dict[str, float])])
def test_a_batch_that_is_called_something_else_is_refused(function: Any) -> None:
    """It would be given a batch all the same."""
    with pytest.raises(ConfigurationError, match=r"receives a batch of records, which .*Batch\[Reading\]"):
        app().batch_handler("readings")(function)


@pytest.mark.parametrize(
    "kind",
    [
        ehkafka.Batch,
        ehkafka.Batch[Any],
        ehkafka.Batch[ehkafka.Record],
        list,
        list[ehkafka.Record],
        Valued,
        Any,
    ],
)
def test_a_batch_of_records_may_be_called_so(kind: Any) -> None:
    """As it always was; `Batch[Record]` is what it holds, and no payload."""
    assert payload_of(annotated(kind), batch=True) is None


def test_a_batch_of_a_name_that_is_nowhere_is_refused() -> None:
    """As for single records."""
    with pytest.raises(ConfigurationError, match=r"batch handler 'of_batch_value': the annotation"):
        app().batch_handler("readings")(of_batch_value)


def test_a_decoder_that_is_a_coroutine_is_refused() -> None:
    """Its result would be handed over in place of a value."""

    async def decode(value: bytes) -> object:
        return value

    with pytest.raises(ConfigurationError, match="async def, which decodes nothing"):
        app().handler("readings", decoder=decode)(bare)


def test_value_and_decoder_choose_a_bare_parameter() -> None:
    """The second one next to the record, or the only one."""

    def both(record, reading): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202

    alone_ = payload_of(bare, value=Reading)
    second = payload_of(both, decoder=orjson.loads)
    tombstones = payload_of(bare, value=Reading | None)
    assert alone_ is not None and second is not None and tombstones is not None  # noqa: PT018
    assert (alone_.arguments, alone_.place, alone_.optional) == (("reading",), 0, False)
    assert (second.arguments, second.place) == (("record", "reading"), 1)
    assert tombstones.optional


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; plain types need none."""
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(MissingExtraError, match=r"handler 'alone': .* pip install 'msgspec>="):
        app().handler("readings")(alone)
    assert payload_of(annotated(dict)) is not None
    assert payload_of(annotated(Model)) is not None


def test_raw_handlers_keep_their_odd_annotations() -> None:
    """What is surely no payload was let through before, and is now."""
    assert payload_of(strange, raw=True) is None
    assert payload_of(unreachable, raw=True) is None


def test_a_handler_may_use_what_gets_its_value_later() -> None:
    """As one does that is defined above what it calls."""

    def early(reading: Reading) -> object:
        return later, reading

    payload = payload_of(early)
    later = 1
    assert payload is not None
    assert early(Reading(1.0)) == (later, Reading(1.0))
