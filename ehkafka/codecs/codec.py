"""What a codec is, and which one there is for a type or a value."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, get_args, get_origin

from ehkafka.codecs import models, typed
from ehkafka.codecs.encoding import can_be_json
from ehkafka.codecs.plain import BYTEARRAY, BYTES, JSON, JSON_LIST, JSON_OBJECT, MEMORYVIEW, TEXT
from ehkafka.codecs.whose import holds_pydantics
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable


class Codec(Protocol):
    """Decodes the values of records, and encodes values that are to be sent. Called by several threads.

    Neither method is given `None`: what a record without a value means is the handler's business, and
    so is what a result of `None` does.
    """

    @property
    def name(self) -> str:
        """What it decodes to, for errors: `Reading`, `dict`."""

    @property
    def content_type(self) -> str | None:
        """What a message with such a value has in its `content-type` header, `None` for nothing."""

    @property
    def decode(self) -> Callable[[bytes], Any]:
        """Return the value that the bytes say. Raises what its library raises: ask `misfit`."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes for a value. Raises `TypeError` or `ValueError` for what it cannot say."""

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit, with its field; `None` where it is not to blame.

        The text shows neither the payload nor a value of it.
        """


if TYPE_CHECKING:
    # What `decoder=` takes: a function of the bytes, or of these and the record (confluent's deserialisers
    # have a context of their own there), or a codec.
    Decoder = Callable[[bytes], Any] | Callable[[bytes, Any], Any] | Codec


def codec_for(annotation: Any) -> Codec:
    """Return the codec of a type, by what was written as an annotation.

    Raises `ConfigurationError` for what no codec knows, and `MissingExtraError`, which names what to install.
    """
    if (plain := _plain_for(annotation)) is not None:
        return plain
    if annotation in (None, NoneType):
        raise ConfigurationError("None is not a payload type: name the type to which payloads are decoded.")
    if holds_pydantics(annotation):
        return models.ModelCodec(annotation)
    return typed.codec_for(annotation)


def codec_of_value(value: object) -> Codec:
    """Return the codec that encodes a value, by the type that it has when the program runs.

    Raises `TypeError` for a type that none encodes.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return BYTES
    if isinstance(value, str):
        return TEXT
    if can_be_json(value):
        return JSON
    kind = type(value).__qualname__
    raise TypeError(
        f"a {kind} cannot be sent as the value of a message: give a dataclass, a pydantic model, a "
        "msgspec.Struct, a dict, a list, a str or bytes."
    )


def _plain_for(annotation: Any) -> Codec | None:
    known: dict[Any, Codec] = {
        bytes: BYTES,
        bytearray: BYTEARRAY,
        memoryview: MEMORYVIEW,
        str: TEXT,
        dict: JSON_OBJECT,
        list: JSON_LIST,
    }
    if get_origin(annotation) is Annotated and not any(map(_is_rule, annotation.__metadata__)):
        annotation = annotation.__origin__  # what else is written there is for readers
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict and arguments in ((str, Any), (str, object)):
        return JSON_OBJECT
    if origin is list and arguments in ((Any,), (object,)):
        return JSON_LIST
    return known.get(annotation) if isinstance(annotation, type) and origin is None else None


def _is_rule(note: Any) -> bool:
    """Tell whether a note in `Annotated` says which values are right."""
    return type(note).__module__.partition(".")[0] in ("msgspec", "pydantic", "annotated_types")
