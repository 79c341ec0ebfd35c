"""Events as the SDK azure-eventhub hands them over: once through its own encoder and decoder."""

from __future__ import annotations

from typing import Any

from azure.eventhub import EventData
from azure.eventhub._pyamqp._decode import decode_payload
from azure.eventhub._pyamqp._encode import encode_payload
from azure.eventhub._pyamqp.message import Message
from azure.eventhub._pyamqp.types import TYPE, VALUE, AMQPTypes

ENQUEUED_MS = 1_700_000_000_000


def received(
    body: bytes, properties: dict[str | bytes, Any], *, key: bytes = b"home-1", sequence_number: int = 0
) -> EventData:
    """Return an event as a consumer of the SDK receives it."""
    annotations: dict[str | bytes, Any] = {
        b"x-opt-partition-key": key,
        b"x-opt-sequence-number": {TYPE: AMQPTypes.long, VALUE: sequence_number},
        b"x-opt-enqueued-time": {TYPE: AMQPTypes.timestamp, VALUE: ENQUEUED_MS},
    }
    sent = Message(message_annotations=annotations, application_properties=properties, data=[body])
    wire = encode_payload(bytearray(), sent)
    return EventData._from_message(decode_payload(memoryview(wire)))
