"""Whether a group's metadata are those of a member: the broker believes a client that has none.

Pure. confluent-kafka gives them as librdkafka writes them: `CGMDv2:`, the generation in the machine's order
of bytes, then the group, the member, and the instance, each ended by a zero byte. A member that the group has
dropped has generation -1 and no member id, and a broker takes a transaction's offsets from such a one without
a look at who owns the partitions (librdkafka, rdkafka_cgrp.c; Kafka, KIP-447).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


class Generation(NamedTuple):
    """A membership: which generation of the group, and which member of it."""

    number: int
    member_id: str

    @property
    def is_member(self) -> bool:
        """Tell whether a broker can tell from it that this member was dropped."""
        return self.number >= 0 and bool(self.member_id)


NO_MEMBER = Generation(-1, "")


def metadata_of_no_member(group: str) -> bytes:
    """Return the metadata of a group by a client that is no member of it."""
    return b"".join((_MAGIC, _GENERATION.pack(NO_MEMBER.number), group.encode(), b"\0\0\1"))


def generation_of(metadata: bytes | None) -> Generation:
    """Return the membership that a consumer's group metadata say; `NO_MEMBER` where they cannot be read."""
    if not metadata or not metadata.startswith(_MAGIC):
        return NO_MEMBER
    rest = metadata[len(_MAGIC) :]
    if len(rest) < _GENERATION.size:
        return NO_MEMBER
    (number,) = _GENERATION.unpack_from(rest)
    texts = rest[_GENERATION.size :].split(b"\0")
    if len(texts) < 3:
        return NO_MEMBER
    return Generation(number, texts[1].decode(errors="replace"))
