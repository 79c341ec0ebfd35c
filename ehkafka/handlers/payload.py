"""Payloads: what a handler is given of a record in addition to the record, or in place of it.

Made when a handler is registered (see `arguments`); what it builds is called by workers, on their threads, in
the child for processes, and never by the poll thread. Decoding is the innermost part of a call: middleware
sees the record unchanged, and its `call_next(record)` decodes what it hands on. A retry decodes again, so
that a handler never sees what its last attempt made of a value.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.codecs.codec import codec_for
from ehkafka.codecs.custom import ConvertingCodec, codec_of
from ehkafka.errors import ConfigurationError
from ehkafka.records.payload_types import is_payload_type
from ehkafka.records.signals import RecordSignal, RejectRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.codecs import Codec
    from ehkafka.records import Message, Record


def codec_of_payload(kind: object, decoder: object, *, is_chosen: bool) -> Codec:
    """Return the codec of a type and a user's decoder; either may be `None`, and `value=` chooses the type.

    Raises `ConfigurationError`.
    """
    if decoder is None:
        return codec_for(kind)
    codec = codec_of(decoder)
    is_plain = getattr(codec, "gives_plain", False)
    if is_chosen and not is_plain:
        raise ConfigurationError(
            "value= and decoder= both define how a payload is decoded: leave one of the two out."
        )
    target = codec_for(kind) if is_plain and kind is not None and is_payload_type(kind) else None
    return ConvertingCodec(codec, target) if hasattr(target, "convert") else codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The payload of a handler: its type and decoder. Pickled for worker processes and for Spark."""

    codec: Codec
    # Whether a record without a value (a tombstone) is None to the handler.
    optional: bool = False
    # What the handler is called with, by the names of its parameters.
    arguments: tuple[str, ...] = ("payload",)
    # Which of them is the payload.
    place: int = 0

    def around(self, function: Callable[..., object]) -> Callable[[Any], object]:
        """Return a handler's function as one of a record."""
        decode, call = self.decoder(), self._called(function)
        return lambda record: call(record, decode(record))

    def around_async(self, function: Callable[..., Awaitable[object]]) -> Callable[[Any], Awaitable[object]]:
        """Return a coroutine function as one of a record."""
        decode, call = self.decoder(), self._called(function)
        # What asks a registry would stop every other task of the loop.
        in_thread = getattr(self.codec, "may_block", False)

        async def decode_first(record: Record) -> object:
            return await call(
                record, await asyncio.to_thread(decode, record) if in_thread else decode(record)
            )

        return decode_first

    def _called(self, function: Callable[..., object]) -> Callable[[Any, Any], Any]:
        """Return a function as one of a record and its value."""
        if len(self.arguments) == 1:
            return lambda _record, value: function(value)
        return function if self.place else lambda record, value: function(value, record)

    def decoder(self) -> Callable[[Record | Message], Any]:
        """Return what gives a record's value. It raises `RejectRecord` for one that does not fit."""
        decode_bytes, decode_message = self.codec.decode, getattr(self.codec, "decode_message", None)

        def decode(record: Record | Message) -> Any:
            value = record.value()
            if value is None:
                if self.optional:
                    return None
                raise RejectRecord("no value")
            try:
                return decode_bytes(value) if decode_message is None else decode_message(record)
            except RecordSignal:
                raise
            except Exception as error:
                nested = (
                    "its values are too deep in each other" if isinstance(error, RecursionError) else None
                )
                if (reason := nested or self.codec.misfit(error)) is None:
                    raise  # something else failed
                # Without what the library says: that may repeat the payload.
                raise RejectRecord(f"the payload does not fit {self.codec.name}: {reason}") from None

        return decode
