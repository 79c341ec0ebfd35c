"""All application headers of a record have one producer: what one of them proves counts for the others.

In the mode `auto` on Event Hubs `T*` may be the text or an AMQP producer's 42. An AMQP producer encodes every
application property, so the headers next to a doubtful one tell which. Looks only where there is a doubt, and
once a record. Pure; never raises for any header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.headers.amqp import NOT_AMQP, parse
from ehkafka.headers.modes import STANDARD_PROPERTIES, auto, decoder, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.headers.amqp_types import Value
    from ehkafka.headers.modes import Decoder, HeaderMode

# What the service writes, or may: how is documented of a part only, so it proves nothing.
_OF_THE_SERVICE: Final = ("x-opt-", "iothub-")
_STANDARD: Final = STANDARD_PROPERTIES | {
    "subject",
    "correlation-id",
    "absolute-expiry-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
}


def decoder_for(
    headers: Sequence[tuple[str, bytes | None]], mode: HeaderMode, *, event_hubs: bool
) -> Decoder:
    """Return what decodes these headers, which are all of one record."""
    if mode == "auto" and event_hubs:
        return _OneProducer(headers).decode
    return decoder(mode, event_hubs=event_hubs)


class _OneProducer:
    """`auto` for the headers of one record."""

    __slots__ = ("_headers", "_speaks")

    def __init__(self, headers: Sequence[tuple[str, bytes | None]]) -> None:
        self._headers = headers
        # `amqp`, `text`, or an empty text where the headers do not tell; None: not read yet.
        self._speaks: str | None = None

    def decode(self, name: str, value: bytes | None) -> Value:
        """Return what the header most likely is."""
        if value is None or not _is_printable(value) or not _is_application(name):
            return auto(name, value)
        found = parse(value)
        if found is NOT_AMQP:
            return auto(name, value)
        if self._speaks is None:
            self._speaks = _language(self._headers)
        if self._speaks == "amqp":
            return found
        return text(name, value) if self._speaks == "text" else auto(name, value)


def _language(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return what the producer speaks if all application headers agree."""
    seen = set()
    for name, value in headers:
        if value is None or not _is_application(name):
            continue
        is_text = _is_printable(value)
        # Bytes that are neither prove nothing.
        if is_text != (parse(value) is not NOT_AMQP):
            seen.add("text" if is_text else "amqp")
    return seen.pop() if len(seen) == 1 else ""


def _is_application(name: str) -> bool:
    lower = name.lower()
    return lower not in _STANDARD and not lower.startswith(_OF_THE_SERVICE)


def _is_printable(value: bytes) -> bool:
    # Most AMQP values and no text begin beyond ASCII; what begins within is nearly always all ASCII.
    if value.isascii():
        return value.decode().isprintable()
    decoded = text("", value)
    return isinstance(decoded, str) and decoded.isprintable()
