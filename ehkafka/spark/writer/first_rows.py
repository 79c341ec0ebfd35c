"""The first row that a client sends to each partition: it is written before the next one goes there. Pure.

A broker accepts any sequence number in a producer's first request to a partition, and librdkafka prepares
the next one while fewer than five messages of the partition are in flight. So if the first request is
refused, the next one is written, before the rows of the first. Worse, if librdkafka itself repeats the first
one, it takes the answer to the next one as the answer to both: the rows of the first are lost, without an
error. Later requests cannot pass each other, because their numbers would leave a gap.

A row's partition is computed as the client does, and only while a partition of its topic has no row yet.
Which have one is forgotten every few seconds: a topic may have grown, or was deleted and recreated, or the
broker has forgotten a producer that was idle for long. In between such a change is not seen, and the first
rows after it are not protected.
"""

from __future__ import annotations

import random
import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ehkafka.errors import TopicNotFoundError
from ehkafka.outputs.encoding import ANY_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    # Topic, value, key, partition and headers.
    Row = tuple[Any, ...]

_WORD: Final = 0xFFFF_FFFF


def murmur2(key: bytes) -> int:
    """Return Java's hash of a key, without its sign."""
    factor, whole = 0x5BD1_E995, len(key) & ~3
    found = 0x9747_B28C ^ len(key)
    for (four,) in struct.iter_unpack("<I", key[:whole]):
        mixed = four * factor & _WORD
        found = (found * factor & _WORD) ^ ((mixed ^ mixed >> 24) * factor & _WORD)
    if len(key) > whole:
        found = (found ^ int.from_bytes(key[whole:], "little")) * factor & _WORD
    found = (found ^ found >> 13) * factor & _WORD
    return (found ^ found >> 15) & 0x7FFF_FFFF


def fnv1a(key: bytes) -> int:
    """Return Sarama's hash of a key: the absolute value of a signed number."""
    found = 0x811C_9DC5
    for byte in key:
        found = (found ^ byte) * 0x0100_0193 & _WORD
    return min(found, _WORD + 1 - found)


_HASHES: Final[Mapping[str, Callable[[bytes], int]]] = {
    "murmur2": murmur2,
    "consistent": zlib.crc32,
    "fnv1a": fnv1a,
}
# A hash takes as long as sending the row; with fewer keys, partitions may stay empty for long. Longer keys
# are hashed anew each time, so that the cache holds a few megabytes at most.
_KEYS_KEPT: Final = 10_000
_KEY_KEPT_BYTES: Final = 1_024


class FirstRows:
    """Which rows are the first ones to their partitions, by one client, since the last `forget`."""

    def __init__(self, partitioner: str, count_of: Callable[[str], int]) -> None:
        """`partitioner` is librdkafka's name of it; `count_of` returns a topic's partitions, 0: none."""
        self._partitioner = partitioner
        self._hash = _HASHES.get(partitioner.removesuffix("_random"))
        self._known_hash = None if self._hash is None else lru_cache(_KEYS_KEPT)(self._hash)
        self._count_of = count_of
        # By topic: its partitions that have no row of this client, in any order, and how many it has in all.
        self._empty: dict[str, dict[int, None]] = {}
        self._counts: dict[str, int] = {}

    def forget(self) -> None:
        """Begin anew."""
        self._empty.clear()

    def split(self, rows: Iterable[Row], topics: Iterable[str]) -> tuple[list[Row], Iterable[Row]]:
        """Return the first rows of partitions, and all others, which go when the first ones are written.

        Unless these are written, `forget` is to be called. `topics` are those of the rows. A row that may go
        anywhere gets the number of an empty partition. The client chooses the partition of a key, as for all
        its other rows: a topic may have grown meanwhile.
        """
        empty = {topic: self._empty_of(topic) for topic in topics}
        if not any(empty.values()):
            return [], rows
        rows = list(rows)
        places = {place: self._partition(*place) for place in {(row[0], row[2], row[3]) for row in rows}}
        if all(number is not None and number not in empty[place[0]] for place, number in places.items()):
            return [], rows
        firsts: list[Row] = []
        others: list[Row] = []
        for row in rows:
            left, number = empty[row[0]], places[row[0], row[2], row[3]]
            if number is None and left:
                number, _ = left.popitem()
                firsts.append((*row[:3], number, row[4]))
            elif number in left:
                del left[number]
                firsts.append(row)
            else:
                others.append(row)
        return firsts, others

    def _empty_of(self, topic: str) -> dict[int, None]:
        if topic not in self._empty:
            count = self._count_of(topic)
            if not count:
                raise TopicNotFoundError(
                    f"Topic {topic!r} does not exist any more. Create it again, or write to another topic."
                )
            self._counts[topic] = count
            # In no order: otherwise each client would send what may go anywhere to partition 0 first.
            self._empty[topic] = dict.fromkeys(random.sample(range(count), count))
        return self._empty[topic]

    def _partition(self, topic: str, key: bytes | None, partition: int) -> int | None:
        """Return the partition of a row; None: any of its topic."""
        if partition != ANY_PARTITION:
            return partition
        # The client's own default differs from all others: an empty key counts as none.
        has_no_key = key is None or (not key and self._partitioner == "consistent_random")
        if has_no_key and self._partitioner.endswith("_random"):
            return None
        count, key = self._counts[topic], key or b""
        own = self._known_hash if len(key) <= _KEY_KEPT_BYTES else self._hash
        return None if own is None else own(key) % count
