"""Decoders that a user gives: functions of the bytes, confluent's deserialisers, codecs of the user's own."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

from ehkafka.codecs.confluent import ConfluentCodec
from ehkafka.codecs.reason import of_library, of_own_code
from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import is_async, must_take, named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.codecs.codec import Codec
    from ehkafka.records import Record

# What a decoder raises about the bytes that it was given. All else is no fault of theirs: the record fails as
# if its handler had raised, and may be retried. An OSError that is a ValueError, too, is a network's.
_OF_THE_PAYLOAD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, EOFError)


def codec_of(decoder: Any) -> Codec:
    """Return the codec of a decoder. Raises `ConfigurationError` for what is none.

    A function is called with the bytes, or with the bytes and the record if it takes two arguments.
    """
    if all(hasattr(decoder, name) for name in ("name", "decode", "misfit")):
        return decoder  # type: ignore[no-any-return]
    if not callable(decoder) or isinstance(decoder, type):
        kind = decoder.__qualname__ if isinstance(decoder, type) else f"a {type(decoder).__qualname__}"
        raise ConfigurationError(
            f"decoder={kind} is not a function: give a function of the bytes of a record, such as "
            f"orjson.loads, or name a type with value=…."
        )
    if is_async(decoder):
        raise ConfigurationError(
            f"decoder={named(decoder)} is an async def, which decodes nothing when it is called: give a "
            f"plain function."
        )
    if any(kind.__module__.startswith("confluent_kafka.") for kind in type(decoder).__mro__):
        return ConfluentCodec(decoder)
    if inspect.isgeneratorfunction(decoder):
        raise ConfigurationError(
            f"decoder={named(decoder)} contains `yield`, so calling it would decode nothing: give a plain "
            f"function without `yield`."
        )
    takes_two = _takes_two(decoder)
    must_take(decoder, ("value", "record") if takes_two else ("value",), f"decoder={named(decoder)}")
    return CustomMessageCodec(decoder) if takes_two else CustomCodec(decoder)


class CustomCodec:
    """Decodes by a function of the bytes."""

    content_type = None

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.name = named(function)

    @property
    def decode(self) -> Callable[[bytes], Any]:
        """The function itself."""
        return self._function

    def encode(self, value: object) -> bytes:
        """Refuse: a decoder knows one direction."""
        raise TypeError(f"codec {self.name} cannot encode a value of type {type(value).__qualname__}")

    def misfit(self, error: Exception) -> str | None:
        """Return what kind of error it raised and where, if that is about the bytes."""
        if (known := of_library(error)) is not None:
            return known
        if not isinstance(error, _OF_THE_PAYLOAD) or isinstance(error, OSError):
            return None
        return of_own_code(error)


class CustomMessageCodec(CustomCodec):
    """Decodes by a function of the bytes and the record."""

    def decode_message(self, record: Record) -> Any:
        """Return what the function makes of them."""
        return self._function(record.value(), record)


class per_process:  # noqa: N801 - reads like a function where it is given
    """A decoder that each process makes for itself, at its first record: `decoder=per_process(make)`.

    For what cannot be pickled, such as a registry's client.

    - `make` (required): a function at the top level of a module that takes no arguments and returns what
      `decoder=` takes.
    """

    content_type = None
    may_block = True

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self.name = named(make)
        self._codec: Any = None
        # Guards the making: workers begin together.
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[per_process], tuple[Callable[[], Any]]]:
        return type(self), (self._make,)

    def decode_message(self, record: Record) -> Any:
        """Return the record's value by the decoder of this process."""
        codec = self._codec or self._made()
        if hasattr(codec, "decode_message"):
            return codec.decode_message(record)
        return codec.decode(record.value())

    def decode(self, value: bytes) -> Any:
        """Return what the bytes say, where the decoder needs no more."""
        return (self._codec or self._made()).decode(value)

    def encode(self, value: object) -> bytes:
        """Encode as the codec of this process does."""
        return (self._codec or self._made()).encode(value)  # type: ignore[no-any-return]

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit."""
        return None if self._codec is None else self._codec.misfit(error)

    def _made(self) -> Any:
        with self._lock:
            if self._codec is None:
                self._codec = codec_of(self._make())
            return self._codec


class ConvertingCodec:
    """Decodes by one codec, whose plain values become a type by another."""

    content_type = None

    def __init__(self, inner: Any, target: Any) -> None:
        self._inner = inner
        self._target = target
        self.name = target.name
        self.may_block = getattr(inner, "may_block", False)

    def decode_message(self, record: Record) -> Any:
        """Return the record's value as the type."""
        found = self._inner.decode_message(record)
        # With from_dict= the value has the type already.
        return self._target.convert(found) if isinstance(found, dict | list) else found

    def decode(self, value: bytes) -> Any:
        """Return what the bytes say as the type."""
        return self._target.convert(self._inner.decode(value))

    def encode(self, value: Any) -> bytes:
        """Encode as the inner codec does."""
        return self._inner.encode(value)  # type: ignore[no-any-return]

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit."""
        reason: str | None = self._target.misfit(error)
        return self._inner.misfit(error) if reason is None else reason


def _takes_two(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in one may have none
        return False
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len([one for one in plain if one.default is one.empty]) == 2
