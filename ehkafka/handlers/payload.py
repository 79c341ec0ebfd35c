"""Payloads: what a handler is given of a record beside the record, or in place of it.

Made when a handler is registered (see `arguments`); what it builds is called by workers, on their threads, in
the child for processes, and never by the poll thread. Decoding is the innermost part of a call: middleware
sees the record as it came, and its `call_next(record)` decodes what it hands on. A retry decodes again, so
that a handler never sees what its last attempt made of a value.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.records.signals import RecordSignal, RejectRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.codecs import Codec
    from ehkafka.records import Message, Record

NO_VALUE = "no value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a handler's records are decoded to. Pickled for worker processes and for Spark."""

    codec: Codec
    # Whether a record without a value (a tombstone) is None to the handler.
    optional: bool = False
    # What the handler is called with, by the names of its parameters.
    arguments: tuple[str, ...] = ("payload",)
    # Which of them is the payload.
    place: int = 0

    def around(self, function: Callable[..., object]) -> Callable[[Any], object]:
        """Return a handler's function as one of a record."""
        decode = self.decoder()
        if len(self.arguments) == 1:
            return lambda record: function(decode(record))
        if self.place == 0:
            return lambda record: function(decode(record), record)
        return lambda record: function(record, decode(record))

    def around_async(self, function: Callable[..., Awaitable[object]]) -> Callable[[Any], Awaitable[object]]:
        """Return a coroutine function as one of a record."""
        decode = self.decoder()
        # What asks a registry would stop every other task of the loop.
        in_thread = getattr(self.codec, "may_block", False)

        async def call(record: Record) -> object:
            value = await asyncio.to_thread(decode, record) if in_thread else decode(record)
            if len(self.arguments) == 1:
                return await function(value)
            return await (function(value, record) if self.place == 0 else function(record, value))

        return call

    def decoder(self) -> Callable[[Record | Message], Any]:
        """Return what gives a record's value. It raises `RejectRecord` for one that does not fit."""
        decode_bytes, decode_message = self.codec.decode, getattr(self.codec, "decode_message", None)

        def decode(record: Record | Message) -> Any:
            value = record.value()
            if value is None:
                return self.without_value()
            try:
                return decode_bytes(value) if decode_message is None else decode_message(record)
            except Exception as error:
                if (refusal := self.refusal(error)) is None:
                    raise
                # Without what the library says: that may repeat the payload.
                raise refusal from None

        return decode

    def without_value(self) -> None:
        """Return what a tombstone is to the handler. Raises `RejectRecord` where it is nothing."""
        if not self.optional:
            raise RejectRecord(NO_VALUE)

    def refusal(self, error: Exception) -> RejectRecord | None:
        """Return how a record fails whose payload does not fit; None where something else failed."""
        if isinstance(error, RecordSignal):
            return None
        nested = "its values stand too deep in each other" if isinstance(error, RecursionError) else None
        reason = nested or self.codec.misfit(error)
        return (
            None if reason is None else RejectRecord(f"the payload does not fit {self.codec.name}: {reason}")
        )
