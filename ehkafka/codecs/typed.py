"""What msgspec decodes out of JSON: dataclasses, its structs, TypedDicts, and whatever else it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.codecs.plain import to_json
from ehkafka.codecs.reason import of_library
from ehkafka.errors import ConfigurationError, MissingExtraError, describe
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.codecs.codec import Codec


def codec_for(annotation: Any) -> Codec:
    """Return the codec of a type. Raises `ConfigurationError` for a type that msgspec does not know."""
    name = name_of(annotation)
    try:
        import msgspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(
            f"a payload of the type {name} needs msgspec: pip install 'ehkafka[types]', or ask for a dict "
            "and check it yourself."
        ) from None
    try:
        decoder = msgspec.json.Decoder(annotation)
        unknown = _unknown_in(msgspec.inspect.type_info(annotation), msgspec.inspect, set())
    except Exception as error:  # a type may hold what it does not know, or names that are nowhere
        raise ConfigurationError(
            f"the type {name} cannot be decoded: {ended(describe(error))} Correct the type, or give "
            "decoder=, a function of the bytes."
        ) from error
    if unknown is not None:
        inside = "" if unknown is annotation else f", which is inside of {name}"
        raise ConfigurationError(
            f"no codec knows the type {name_of(unknown)}{inside}: ask for a dataclass, a pydantic model, a "
            "msgspec.Struct, a TypedDict, a dict, a list, a str or bytes, or give decoder=, a function of "
            "the bytes."
        )
    return TypedCodec(annotation, name, decoder.decode)


class TypedCodec:
    """Decodes JSON to one type, checked field by field."""

    content_type = "application/json"

    def __init__(self, annotation: Any, name: str, decode: Callable[[bytes], Any]) -> None:
        self._annotation = annotation
        self.name = name
        self.decode = decode

    def convert(self, value: Any) -> Any:
        """Return plain values, as Avro or Protobuf gave them, as this type."""
        import msgspec  # noqa: PLC0415

        return msgspec.convert(value, self._annotation)

    def encode(self, value: Any) -> bytes:
        """Return a value as JSON."""
        return to_json(value)

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit, with its field."""
        return of_library(error)

    def __reduce__(self) -> tuple[Callable[[Any], Codec], tuple[Any]]:
        return codec_for, (self._annotation,)


def name_of(annotation: Any) -> str:
    """Return a type as its user wrote it, more or less."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _unknown_in(info: Any, inspect: Any, seen: set[int]) -> Any:
    """Return the first class that msgspec takes for a user's own, which it would refuse in each payload."""
    if id(info) in seen:  # a type may hold itself
        return None
    seen.add(id(info))
    if isinstance(info, inspect.CustomType):
        return info.cls
    inside = [getattr(info, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    inside += [*getattr(info, "types", ()), *getattr(info, "item_types", ()), *getattr(info, "fields", ())]
    found = (_unknown_in(one, inspect, seen) for one in inside if one is not None)
    return next((one for one in found if one is not None), None)
