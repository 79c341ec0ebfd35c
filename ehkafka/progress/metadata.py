"""The text of a commit: facts of its log and group, and what is finished out of order, above its offset.

Pure. The text is ASCII: `ehk2.` and in base 85 which parts follow, the commit's next_offset, the facts, the
finished ranges, and a checksum. It is valid only with that very next_offset, so an operator who moves the
commit also drops the ranges. Text may be of any origin: reading it raises nothing, takes bounded work, and
returns what is wrong with it. A new fact is a field of `LogFacts`, a bit, and bytes in `_head` and `_read`.

Commits that are made from outside of the group, by `ehkafka offsets` or by a run on Spark, have a plain word
behind the prefix; their facts are a word of their own, `-` for none:

    ehk2.moved.<facts>
    ehk2.claim.<facts>.<whose>
    ehk2.spark.<facts>.<what `spark.engine.group.ownership` writes>
"""

from __future__ import annotations

import base64
import enum
import re
import zlib
from typing import NamedTuple

from ehkafka.progress.ranges import Ranges, SavedRanges, count_offsets, read_ranges, write_ranges
from ehkafka.progress.ranges_forms import read_varint, varint
from ehkafka.settings.reset_name import RESET_NAME

VERSION = 2
# Kafka's protocol has no longer strings.
TEXT_BYTES_MAX = 32_767
_PREFIX = f"ehk{VERSION}."
# What goes with a commit that moves a group from outside: what was finished above it counts no more,
# wherever else that is kept.
MOVED = f"{_PREFIX}moved"
# Begins the metadata of a commit by a replica that is about to reset the group. It moves no offset.
CLAIM = f"{_PREFIX}claim."
# Begins what goes with a commit of a run on Spark. Nothing is finished above such a commit.
ON_SPARK = f"{_PREFIX}spark."
# Stands for facts where there are none.
NO_WORD = "-"
TOPIC_ID_BYTES = 16
_ANY_VERSION = re.compile(r"ehk([1-9][0-9]{0,3})\.")
_CHECKSUM_BYTES = 4
_TIMESTAMP_BYTES = 6
# Bounds that keep all facts but a reset's name within 64 bytes of text, with the highest offset.
_PARTITIONS_MAX = 2**21 - 1
_DISTANCE_MAX = 2**35 - 1
# Which parts follow. What is not known here was written by a newer ehkafka.
_PARTITIONS, _TOPIC_ID, _WITNESS, _RESET, _RANGES, _INCOMPLETE = (1 << bit for bit in range(6))
_KNOWN = (1 << 6) - 1


class LogFacts(NamedTuple):
    """The facts about its log and its group that every commit contains. None: not known.

    `first_partitions` is how many partitions the topic had when the group's first commits were made.
    `topic_id` is the broker's own name of the topic, 16 bytes. `witness` is a finished record below
    next_offset, as (offset, timestamp in ms): it tells the log from another of the same name. It is
    the last one whose timestamp is known where an id is; else the last that a look has found in the log.
    `reset` is the name of the last reset that had one.
    """

    first_partitions: int | None = None
    topic_id: bytes | None = None
    witness: tuple[int, int] | None = None
    reset: str | None = None

    def of_no_log(self) -> LogFacts:
        """Return only the facts of the group: the position is another log's, or an unknown one's."""
        return self._replace(topic_id=None, witness=None)


NOTHING_KNOWN = LogFacts()


class CommitMetadata(NamedTuple):
    """A text's contents. `drops_ranges`: nothing above its commit counts as finished, also in a mirror."""

    facts: LogFacts = NOTHING_KNOWN
    ranges: SavedRanges = SavedRanges()
    drops_ranges: bool = False


class Unusable(enum.Enum):
    """Why a text is of no use here; the value is for people."""

    FOREIGN = "it was not written by ehkafka"
    NEWER = "it was written by a newer ehkafka"
    BROKEN = "it is damaged"
    OTHER_OFFSET = "it belongs to another committed offset"


class MetadataText(NamedTuple):
    """A text, and how many finished offsets it contains and leaves out. None: there is nothing to write."""

    text: str | None
    kept_offsets: int
    dropped_offsets: int


class _Parts(NamedTuple):
    next_offset: int
    facts: LogFacts
    ranges: bytes
    is_complete: bool


def encode(
    next_offset: int,
    facts: LogFacts,
    finished: Ranges,
    leader_epoch: int | None,
    bytes_max: int,
    *,
    is_complete: bool = True,
) -> MetadataText:
    """Return the text for a commit of `next_offset` in at most `bytes_max` bytes.

    Facts go before ranges. When not all ranges fit, the lowest are kept: longer ones above them may be
    of the same keys. Not `is_complete`: more may be finished than was looked for.
    """
    total = count_offsets(finished)
    room_bytes = _payload_bytes(bytes_max, _PREFIX) - _CHECKSUM_BYTES
    known, head = _fitting(next_offset, facts, room_bytes)
    ranges_bytes = room_bytes - len(head) - 1
    ranges = write_ranges(next_offset, finished, leader_epoch, ranges_bytes)
    if not known and not ranges.body:
        return MetadataText(None, 0, total)
    known |= _RANGES if ranges.body else 0
    known |= 0 if is_complete and not ranges.dropped_offsets else _INCOMPLETE
    text = _PREFIX + _packed(bytes([known]) + head + ranges.body)
    return MetadataText(text, ranges.kept_offsets, ranges.dropped_offsets)


def decode(text: str, next_offset: int) -> CommitMetadata | Unusable:
    """Return what the text of a commit of `next_offset` contains, or why it is of no use."""
    if drops_ranges(text):
        return CommitMetadata(facts_in_word(_facts_word(text), next_offset), drops_ranges=True)
    version = _ANY_VERSION.match(text)
    if version is None or len(text) > TEXT_BYTES_MAX:
        return Unusable.FOREIGN
    if int(version[1]) > VERSION:
        return Unusable.NEWER
    parts = _parts(text.removeprefix(_PREFIX)) if text.startswith(_PREFIX) else Unusable.FOREIGN
    if isinstance(parts, Unusable):
        return parts
    if parts.next_offset != next_offset:
        return Unusable.OTHER_OFFSET
    return _with_ranges(parts)


def facts_of(next_offset: int, text: str | None) -> LogFacts:
    """Return the facts that a commit of `next_offset` carries; none if its text is of no use."""
    decoded = decode(text or "", next_offset)
    return LogFacts() if isinstance(decoded, Unusable) else decoded.facts


def moved(next_offset: int, facts: LogFacts) -> str:
    """Return the text for a commit from outside, which moves the group to `next_offset`."""
    word = facts_word(next_offset, facts)
    return MOVED if word == NO_WORD else f"{MOVED}.{word}"


def claim(next_offset: int, facts: LogFacts, whose: str) -> str:
    """Return the text of a run that is about to reset the group, for the commit as it is."""
    return f"{CLAIM}{facts_word(next_offset, facts)}.{whose}"


def facts_word(next_offset: int, facts: LogFacts, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return facts as a word without dots, as many as fit: commits from outside and mirrors contain it."""
    known, head = _fitting(next_offset, facts, _payload_bytes(bytes_max, "") - _CHECKSUM_BYTES)
    return _packed(bytes([known]) + head) if known else NO_WORD


def facts_in_word(word: object, next_offset: int) -> LogFacts:
    """Return the facts that `facts_word` has made a word of; none where it is of no use."""
    parts = _parts(word) if isinstance(word, str) and len(word) <= TEXT_BYTES_MAX else Unusable.FOREIGN
    if isinstance(parts, Unusable) or parts.next_offset != next_offset or parts.ranges:
        return LogFacts()
    return parts.facts


def drops_ranges(text: str) -> bool:
    """Tell whether by a text nothing above its commit counts as finished, not even in a mirror."""
    return text == MOVED or text.startswith((f"{MOVED}.", CLAIM, ON_SPARK))


def without_facts(text: str | None) -> bytes:
    """Return what a text contains except its facts: for a change of these no commit is made."""
    if not text:
        return b""
    if drops_ranges(text):
        words = text.split(".", 3)
        return ".".join((*words[:2], *words[3:])).encode(errors="surrogatepass")
    parts = _parts(text.removeprefix(_PREFIX)) if text.startswith(_PREFIX) else None
    if not isinstance(parts, _Parts):
        return text.encode(errors="surrogatepass")
    return bytes([parts.is_complete]) + parts.ranges if parts.ranges else b""


def _payload_bytes(text_bytes: int, prefix: str) -> int:
    """Return how many bytes go into a text: four become five characters, of fewer each costs one more."""
    groups, left = divmod(min(text_bytes, TEXT_BYTES_MAX) - len(prefix), 5)
    return groups * 4 + max(0, left - 1)


def _fitting(next_offset: int, facts: LogFacts, room_bytes: int) -> tuple[int, bytes]:
    """Return which facts are written, and the next_offset with them. What matters least goes first."""
    for left_out in ({}, {"witness": None}, {"topic_id": None}, {"first_partitions": None}, {"reset": None}):
        facts = facts._replace(**left_out)
        known, head = _head(next_offset, facts)
        if len(head) + 1 <= room_bytes:
            break
    return known, head


def _head(next_offset: int, facts: LogFacts) -> tuple[int, bytes]:
    known, written = 0, [varint(next_offset)]
    first, topic_id, witness, reset = facts
    if first is not None and 0 < first <= _PARTITIONS_MAX:
        known |= _PARTITIONS
        written.append(varint(first))
    if topic_id is not None and len(topic_id) == TOPIC_ID_BYTES:
        known |= _TOPIC_ID
        written.append(topic_id)
    if witness is not None and _is_sayable(witness, next_offset):
        known |= _WITNESS
        written += (varint(next_offset - 1 - witness[0]), witness[1].to_bytes(_TIMESTAMP_BYTES))
    if reset is not None and RESET_NAME.fullmatch(reset):
        known |= _RESET
        written += (bytes([len(reset)]), reset.encode("ascii"))
    return known, b"".join(written)


def _is_sayable(witness: tuple[int, int], next_offset: int) -> bool:
    offset, timestamp_ms = witness
    is_near = 0 <= offset < next_offset <= offset + 1 + _DISTANCE_MAX
    return is_near and 0 <= timestamp_ms < 1 << 8 * _TIMESTAMP_BYTES


def _packed(signed: bytes) -> str:
    return base64.b85encode(signed + zlib.crc32(signed).to_bytes(_CHECKSUM_BYTES)).decode("ascii")


def _parts(packed: str) -> _Parts | Unusable:
    try:
        payload = base64.b85decode(packed)
        signed = payload[:-_CHECKSUM_BYTES]
        # Of the last characters several say the same: only the one that was written counts.
        if not signed or _packed(signed) != packed:
            return Unusable.BROKEN
        return _read(signed) if not signed[0] & ~_KNOWN else Unusable.NEWER
    except ValueError:
        return Unusable.BROKEN


def _read(signed: bytes) -> _Parts:
    known = signed[0]
    first = topic_id = witness = reset = None
    next_offset, position = read_varint(signed, 1)
    if known & _PARTITIONS:
        first, position = read_varint(signed, position)
        if not 0 < first <= _PARTITIONS_MAX:
            raise ValueError("the number of partitions is not valid")
    if known & _TOPIC_ID:
        topic_id, position = _taken(signed, position, TOPIC_ID_BYTES)
    if known & _WITNESS:
        distance, position = read_varint(signed, position)
        moment, position = _taken(signed, position, _TIMESTAMP_BYTES)
        witness = next_offset - 1 - distance, int.from_bytes(moment)
        if not _is_sayable(witness, next_offset):
            raise ValueError("the record in the metadata is not below the commit")
    if known & _RESET:
        size, position = _taken(signed, position, 1)
        name, position = _taken(signed, position, size[0])
        reset = name.decode("ascii")
        if not RESET_NAME.fullmatch(reset):
            raise ValueError("the name of the reset is not valid")
    facts = LogFacts(first, topic_id, witness, reset)
    ranges = signed[position:]
    if bool(ranges) is not bool(known & _RANGES):
        raise ValueError(
            "the metadata contains ranges but announces none, or announces ranges but contains none"
        )
    return _Parts(next_offset, facts, ranges, not known & _INCOMPLETE)


def _taken(signed: bytes, position: int, size: int) -> tuple[bytes, int]:
    if position + size > len(signed):
        raise ValueError("the metadata ends too soon")
    return signed[position : position + size], position + size


def _with_ranges(parts: _Parts) -> CommitMetadata | Unusable:
    if not parts.ranges:
        return CommitMetadata(parts.facts, SavedRanges(is_complete=parts.is_complete))
    try:
        found = read_ranges(parts.ranges, parts.next_offset)
    except ValueError:
        return Unusable.BROKEN
    if found is None:
        return Unusable.NEWER
    return CommitMetadata(parts.facts, SavedRanges(*found, is_complete=parts.is_complete))


def _facts_word(text: str) -> str:
    """Return the facts of a commit from outside, as they stand in its text."""
    words = text[:TEXT_BYTES_MAX].split(".", 3)
    return words[2] if len(words) > 2 else NO_WORD
