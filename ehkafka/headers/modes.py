"""How the bytes of a header become a value: `raw`, `amqp` or `auto`.

Kafka headers are bytes without a type. On Event Hubs they come from three kinds of producers: AMQP ones,
whose application properties arrive as AMQP 1.0 values; Kafka ones, whose headers arrive as they were sent,
nearly always UTF-8; and the service itself, which writes some standard properties as UTF-8.

- `raw` leaves the bytes as they came.
- `amqp` decodes what is exactly one AMQP value; the rest stays bytes.
- `auto`, where the endpoint is Event Hubs or its emulator, tries in this order:

  1. A standard property of `STANDARD_PROPERTIES`: UTF-8 text, which is the service's rule.
  2. One byte: the AMQP constants 0x40 to 0x45 are null, true, false, 0, 0 and the empty list; so the texts
     `@` and `A` to `E` look the same and lose.
  3. Text that is wholly printable (`str.isprintable`; the empty one, too) is text, even where it could be an
     AMQP value: `qABCD` is text, not an int.
  4. Exactly one AMQP value is that value.
  5. UTF-8 is text, else the bytes stay. AMQP strings, symbols and binaries, longs, doubles, timestamps and
     UUIDs begin with bytes that no UTF-8 text begins with: with these there is no doubt.

  Rules 2 and 3 may err: an AMQP producer's int or long from 32 to 126 is two printable characters (42 is
  `T*` or `U*`), as are four letters behind one of `pqrs` and two behind `` ` `` or `a`. So where one of a
  record's application headers is in doubt, the others are asked (`one_producer`), for AMQP producers encode
  all of them and Kafka producers none: is one of them an AMQP value and no printable text, and none the other
  way round, the doubtful ones are AMQP; in the opposite case they are text; if both occur, the rules stand.
  Standard properties and annotations (`x-opt-…`) prove nothing. What is left is a record whose headers are
  all in doubt, such as a single `T*`. Where all producers speak AMQP, `amqp` has no such doubts.

- `auto` elsewhere: UTF-8 is text, else the bytes stay.

A header without a value is `None` in every mode. Pure functions; they never raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ehkafka.headers.amqp import NOT_AMQP, decode, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.headers.amqp_types import Value

HeaderMode = Literal["auto", "amqp", "raw"]
# Given a header's name and its bytes.
Decoder: TypeAlias = "Callable[[str, bytes | None], Value]"

STANDARD_PROPERTIES: Final = frozenset(
    {
        "message-id",
        "user-id",
        "to",
        "reply-to",
        "content-type",
        "content-encoding",
        "creation-time",
    }
)
"""Properties of an AMQP message that the service hands to Kafka clients as UTF-8 headers. Source: Event Hubs
docs, Exchange events between consumers and producers that use different protocols."""

_ONE_BYTE_CODES = range(0x40, 0x46)
_NEVER_FIRST_IN_TEXT = range(0x80, 0xC2)


def decoder(mode: HeaderMode, *, event_hubs: bool) -> Decoder:
    """Return what decodes a header in this mode, on Event Hubs or on any other broker."""
    if mode == "raw":
        return raw
    if mode == "amqp":
        return amqp
    return auto if event_hubs else text


def raw(_name: str, value: bytes | None) -> Value:
    """Return the bytes."""
    return value


def amqp(_name: str, value: bytes | None) -> Value:
    """Return the AMQP value, else the bytes."""
    return None if value is None else decode(value)


def text(_name: str, value: bytes | None) -> Value:
    """Return UTF-8 text, else the bytes."""
    if value is None:
        return None
    decoded = _text(value)
    return value if decoded is None else decoded


def auto(name: str, value: bytes | None) -> Value:
    """Return what the header most likely is, by the rule above."""
    if value is None:
        return None
    decoded = _text(value)
    if decoded is not None and name.lower() in STANDARD_PROPERTIES:
        return decoded
    if len(value) == 1 and value[0] in _ONE_BYTE_CODES:
        return decode(value)
    if decoded is not None and decoded.isprintable():
        return decoded
    found = parse(value)
    if found is not NOT_AMQP:
        return found
    return value if decoded is None else decoded


def _text(value: bytes) -> str | None:
    # No text begins so, but most AMQP values do; an exception would cost more than this look.
    if value and value[0] in _NEVER_FIRST_IN_TEXT:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
