"""Whether a group's metadata are those of a member: the broker believes a client that has none.

Pure. confluent-kafka gives them as librdkafka writes them: `CGMDv2:`, the generation in the machine's order
of bytes, then the group, the member, and the instance, each ended by a zero byte. A member that the group has
dropped has generation -1 and no member id, and a broker takes a transaction's offsets from such a one without
a look at who owns the partitions (librdkafka, rdkafka_cgrp.c; Kafka, KIP-447).
"""

from __future__ import annotations

import struct

_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


def metadata_of_no_member(group: str) -> bytes:
    """Return the metadata of a group by a client that is no member of it."""
    return b"".join((_MAGIC, _GENERATION.pack(-1), group.encode(), b"\0\0\1"))


def is_member(metadata: bytes | None) -> bool:
    """Tell whether a broker can tell from a consumer's group metadata that this member was dropped."""
    head = len(_MAGIC) + _GENERATION.size
    if not metadata or not metadata.startswith(_MAGIC) or len(metadata) < head:
        return False
    (generation,) = _GENERATION.unpack_from(metadata, len(_MAGIC))
    texts = metadata[head:].split(b"\0")
    return generation >= 0 and len(texts) >= 3 and texts[1] != b""
