"""Tells whether a group's metadata are those of a member. Pure.

A broker checks a transaction's offsets only by these metadata. If the group has dropped a member, its
metadata have generation -1 and no member id, and a broker accepts offsets with them no matter which member
owns the partitions (librdkafka, rdkafka_cgrp.c; Kafka, KIP-447). confluent-kafka returns the bytes of
librdkafka: `CGMDv2:`, the generation in the machine's byte order, then group, member and instance, each ended
by a zero byte.
"""

from __future__ import annotations

import struct

_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


def metadata_of_no_member(group: str) -> bytes:
    """Return a group's metadata for a client that is no member of it."""
    return b"".join((_MAGIC, _GENERATION.pack(-1), group.encode(), b"\0\0\1"))


def is_member(metadata: bytes | None) -> bool:
    """Tell whether a consumer's group metadata name a member, so that the broker sees if it was dropped."""
    head = len(_MAGIC) + _GENERATION.size
    if not metadata or not metadata.startswith(_MAGIC) or len(metadata) < head:
        return False
    (generation,) = _GENERATION.unpack_from(metadata, len(_MAGIC))
    texts = metadata[head:].split(b"\0")
    return generation >= 0 and len(texts) >= 3 and texts[1] != b""
