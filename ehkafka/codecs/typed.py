"""What msgspec decodes out of JSON: dataclasses, its structs, TypedDicts, and whatever else it knows."""

from __future__ import annotations

from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from ehkafka.codecs.encoding import to_json
from ehkafka.codecs.reason import of_library
from ehkafka.codecs.whose import is_pydantics
from ehkafka.errors import ConfigurationError, MissingExtraError, describe
from ehkafka.wording import ended
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ehkafka.codecs.codec import Codec


def codec_for(annotation: object) -> Codec:
    """Return the codec of a type. Raises `ConfigurationError` for a type that msgspec does not know."""
    name = name_of(annotation)
    try:
        import msgspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(
            f"a payload of the type {name} needs msgspec: {install('types')}, or ask for a dict and "
            "check it yourself."
        ) from None
    try:
        decoder = msgspec.json.Decoder(annotation)
        kinds = list(_kinds_in(msgspec.inspect.type_info(annotation), set()))
    except Exception as error:  # a type may hold what it does not know, or names that are nowhere
        raise ConfigurationError(
            f"the type {name} cannot be decoded: {ended(describe(error))} Correct the type, or give "
            f"decoder= a function of the bytes."
        ) from error
    unknown = next((one.cls for one in kinds if isinstance(one, msgspec.inspect.CustomType)), None)
    if unknown is not None and is_pydantics(unknown):
        raise ConfigurationError(
            f"{name_of(unknown)}, a field type inside {name}, is a pydantic type, and a msgspec.Struct "
            f"cannot contain it: make {name} a dataclass or a pydantic model, or give decoder= a function "
            f"of the bytes."
        )
    if unknown is not None:
        inside = "" if unknown is annotation else f", a field type inside {name}"
        raise ConfigurationError(
            f"no codec knows the type {name_of(unknown)}{inside}: use a dataclass, a pydantic model, a "
            f"msgspec.Struct, a TypedDict, a dict, a list, a str or bytes, or give decoder= a function of "
            f"the bytes."
        )
    _forget(kinds)
    convert = partial(msgspec.convert, type=annotation)
    return TypedCodec(annotation, name, decoder.decode, convert, _fields_of(kinds))


class TypedCodec:
    """Decodes JSON to one type, checked field by field.

    `convert` makes it of plain values, as Avro or Protobuf gave them.
    """

    content_type = "application/json"

    def __init__(
        self,
        annotation: object,
        name: str,
        decode: Callable[[bytes], object],
        convert: Callable[[Any], object],
        fields: dict[str, tuple[str, ...]],
    ) -> None:
        self._annotation = annotation
        self._fields = fields
        self.name = name
        self.decode = decode
        self.convert = convert

    def encode(self, value: object) -> bytes:
        """Return a value as JSON."""
        return to_json(value)

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit, with its field."""
        return of_library(error)

    def __reduce__(self) -> tuple[Callable[..., Codec], tuple[Any, dict[str, tuple[str, ...]]]]:
        return _arrived, (self._annotation, self._fields)


def _arrived(annotation: object, fields: dict[str, tuple[str, ...]]) -> Codec:
    """Return the codec in another process. A struct that Spark sends by value comes without its fields."""
    codec = codec_for(annotation)
    assert isinstance(codec, TypedCodec)
    if codec._fields != fields:
        raise ConfigurationError(
            f"the type {codec.name} arrived in another process without its fields: define the type at the "
            f"top level of a module that the other process can import."
        )
    return codec


def name_of(annotation: object) -> str:
    """Return a type as its user wrote it, more or less: without modules, and without notes in `Annotated`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return name_of(arguments[0])
    if origin in (Union, UnionType):
        return " | ".join(map(name_of, arguments))
    if origin in (None, Literal):
        return getattr(annotation, "__qualname__", None) or str(annotation)
    inside = ", ".join("…" if one is ... else name_of(one) for one in arguments)
    return f"{name_of(origin)}[{inside}]"


def _kinds_in(info: object, seen: set[int]) -> Iterator[object]:
    """Yield what msgspec knows of a type and of all types inside of it."""
    if id(info) in seen:  # a type may hold itself
        return
    seen.add(id(info))
    yield info
    inside = [getattr(info, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    inside += [*getattr(info, "types", ()), *getattr(info, "item_types", ()), *getattr(info, "fields", ())]
    for one in inside:
        if one is not None:
            yield from _kinds_in(one, seen)


def _forget(kinds: Iterable[object]) -> None:
    """Take off the classes what msgspec keeps on them, which cannot be pickled: Spark sends some by value.

    The decoder has its own reference; msgspec makes it anew where it wants it.
    """
    for one in kinds:
        kind = getattr(one, "cls", None)
        if isinstance(kind, type) and "__msgspec_cache__" in vars(kind):
            del kind.__msgspec_cache__  # type: ignore[attr-defined]


def _fields_of(kinds: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """Return the names of the fields of each class."""
    return {
        one.cls.__qualname__: tuple(field.name for field in one.fields)
        for one in kinds
        if hasattr(one, "fields") and hasattr(one, "cls")
    }
