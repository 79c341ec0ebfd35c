"""Writes positions as other clients read them. Pure.

Kafka does not know the SDK's own offset, and a sequence number must never stand in its place: a reader would
resume somewhere else. So `offset` is empty. Who reads the sequence number alone then: .NET's current SDK and
Functions extension, and KEDA for the SDK's form. The SDKs of Python (it begins at the text `None`),
JavaScript (at an empty text), Java and Go, and EventProcessorHost itself, need an offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import orjson

from ehkafka.checkpoints.formats.formats import CLIENT, OFFSET, SEQUENCE_NUMBER, Format
from ehkafka.checkpoints.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

WRITTEN = (Format.SDK, Format.EPH, Format.FUNCTIONS)
"""The formats that can be written."""


class BlobToWrite(NamedTuple):
    """One blob to write."""

    name: str
    metadata: Mapping[str, str]
    body: bytes


def write_checkpoint(
    form: Format, *, namespace: str, hub: str, group: str, partition: int, next_offset: int, prefix: str = ""
) -> BlobToWrite:
    """Return the blob that says that all below `next_offset`, at least 1, is processed.

    `group` is the hub's consumer group. `prefix` stands before the group of EventProcessorHost's name.
    Raises `ConfigurationError` for names that no blob can have.
    """
    assert next_offset > 0, "nothing is processed: there is no such checkpoint"
    assert form in WRITTEN
    sequence_number = next_offset - 1
    layout = Layout(namespace, group)
    name = layout.name(hub, partition)
    if form is Format.SDK:
        return BlobToWrite(name, {SEQUENCE_NUMBER: str(sequence_number), OFFSET: "", CLIENT: "ehkafka"}, b"")
    if form is Format.FUNCTIONS:
        name = f"{namespace}/{hub}/{group}/{partition}"
    else:
        name = f"{prefix}{group}/{partition}"
    body = {
        "PartitionId": str(partition),
        "Owner": "",
        "Token": "",
        "Epoch": 0,
        "Offset": "",
        "SequenceNumber": sequence_number,
    }
    return BlobToWrite(name, {}, orjson.dumps(body))
