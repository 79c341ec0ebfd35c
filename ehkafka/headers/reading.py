"""Reads a message's headers, for `Record` and for handlers that get confluent's `Message` itself.

Nothing is kept: each call reads the headers again, so code that needs a value twice keeps it in a variable.
Pure functions; none raises for any header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.headers import modes
from ehkafka.headers.amqp import parse
from ehkafka.headers.one_producer import decoder_for
from ehkafka.headers.partition_key import partition_key_bytes
from ehkafka.headers.taking import take_headers

if TYPE_CHECKING:
    from ehkafka.headers.amqp_types import Value
    from ehkafka.headers.modes import HeaderMode
    from ehkafka.headers.taking import Headed

ANNOTATION_PREFIX: Final = "x-opt-"
"""Names of AMQP message annotations begin so: what the service, not the application, says of an event."""

CONTENT_TYPE_HEADER: Final = "content-type"
# What the serialisers of the Azure schema registry put before the schema's id.
_AVRO_WITH_SCHEMA = "avro/binary+"


def properties(message: Headed, mode: HeaderMode = "auto", *, event_hubs: bool = True) -> dict[str, Value]:
    """Return the decoded headers without the service's annotations (`x-opt-…`), as `EventData.properties`.

    Of several headers of one name the last counts. `ehkafka.headers.modes` has the rules of decoding.

    - `message` (required): confluent-kafka's message, or a `Record`.
    - `mode` (default `"auto"`): how bytes become values: `"auto"`, `"amqp"`, or `"raw"` for the bytes.
    - `event_hubs` (default `True`): whether `"auto"` expects AMQP values. False for another broker's records.
    """
    headers = take_headers(message)
    decode = decoder_for(headers, mode, event_hubs=event_hubs)
    return {name: decode(name, value) for name, value in headers if not name.startswith(ANNOTATION_PREFIX)}


def system_properties(
    message: Headed, mode: HeaderMode = "auto", *, event_hubs: bool = True
) -> dict[str, Value]:
    """Return decoded annotations (`x-opt-…`) and standard properties, as `EventData.system_properties`.

    Arguments are those of `properties`.
    """
    headers = take_headers(message)
    decode = decoder_for(headers, mode, event_hubs=event_hubs)
    return {
        name: decode(name, value)
        for name, value in headers
        if name.startswith(ANNOTATION_PREFIX) or name in modes.STANDARD_PROPERTIES
    }


def partition_key(message: Headed) -> str | bytes | None:
    """Return the partition key of an AMQP or HTTPS producer, else the record's key; text if it is UTF-8.

    Arguments are those of `content_type`.
    """
    key = partition_key_bytes(take_headers(message))
    if key is None:
        key = message.key()
    if key is None:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def content_type(message: Headed) -> str | None:
    """Return the last `content-type` header in any case of letters; `None` if there is none, or not as text.

    The service and Kafka producers write it as UTF-8; an AMQP string is understood, too.

    - `message` (required): confluent-kafka's message, or a `Record`.
    """
    for name, value in reversed(take_headers(message)):
        if value is not None and name.lower() == CONTENT_TYPE_HEADER:
            shown = modes.text(name, value)
            shown = parse(value) if isinstance(shown, bytes) else shown
            return shown if isinstance(shown, str) else None
    return None


def schema_id(message: Headed) -> str | None:
    """Return the schema's id in the Azure schema registry: the `<id>` of content type `avro/binary+<id>`.

    Arguments are those of `content_type`.
    """
    shown = (content_type(message) or "").strip()
    if not shown.lower().startswith(_AVRO_WITH_SCHEMA):
        return None
    return shown[len(_AVRO_WITH_SCHEMA) :] or None
