"""Finished ranges above a commit, as the text that goes with it, and back.

Pure. The text is ASCII: `ehk1.` and in base 85 the form of the ranges, the commit's next_offset, the leader
epoch of what is finished, the ranges, and a checksum. It is valid only beside that very next_offset, so an
operator who moves the commit also drops the ranges. Text may come from anybody: reading it raises nothing,
takes bounded work, and says what is wrong with it.
"""

from __future__ import annotations

import base64
import enum
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.progress.ranges_forms import FORMS, LENGTH_MAX, deflate, inflate, read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Half-open ranges of offsets, ascending and apart.
Ranges = tuple[tuple[int, int], ...]

VERSION = 1
# Kafka's protocol has no longer strings.
TEXT_BYTES_MAX = 32_767
_PREFIX = f"ehk{VERSION}."
# What goes with a commit that moves a group from outside: what was finished above it counts no more,
# wherever else that is kept.
MOVED = f"{_PREFIX}moved"
# Begins what goes with a commit of a run on Spark; its name follows. Nothing is finished above such a commit.
ON_SPARK = f"{_PREFIX}spark."
_ANY_VERSION = re.compile(r"ehk([1-9][0-9]{0,3})\.")
_CHECKSUM_BYTES = 4
_BITMAP = 2
# Added to a form's number where its body is compressed.
_DEFLATED = 16
# Added where ranges were left out.
_INCOMPLETE = 32


class SavedRanges(NamedTuple):
    """What a text says: finished ranges, and the newest leader epoch among their records where known.

    Not `is_complete`: there were more, which did not fit.
    """

    finished: Ranges
    leader_epoch: int | None
    is_complete: bool


class Unusable(enum.Enum):
    """Why a text says nothing here; the value is for people."""

    FOREIGN = "it was not written by ehkafka"
    NEWER = "it was written by a newer ehkafka"
    BROKEN = "it is damaged"
    OTHER_OFFSET = "it belongs to another committed offset"
    MOVED = "the group was moved there"


class RangesText(NamedTuple):
    """A text, and how many finished offsets it says and leaves out. None: there is nothing to say."""

    text: str | None
    kept_offsets: int
    dropped_offsets: int


def encode(next_offset: int, finished: Ranges, leader_epoch: int | None, bytes_max: int) -> RangesText:
    """Return the text for a commit of `next_offset` in at most `bytes_max` bytes.

    When not all ranges fit, those that save most are kept: the lowest, or only the longer ones.
    """
    total = count_offsets(finished)
    head = varint(next_offset) + varint(0 if leader_epoch is None else leader_epoch + 1)
    # Four bytes become five characters; of a last group of fewer bytes each costs one, and one more.
    groups, left = divmod(min(bytes_max, TEXT_BYTES_MAX) - len(_PREFIX), 5)
    body_bytes = groups * 4 + max(0, left - 1) - len(head) - _CHECKSUM_BYTES - 1
    if not finished or body_bytes < 1:
        return RangesText(None, 0, total)
    number, body, kept = _best(to_runs(next_offset, finished), body_bytes)
    if not kept:
        return RangesText(None, 0, total)
    payload = bytes([number if kept == total else number | _INCOMPLETE]) + head + body
    payload += zlib.crc32(payload).to_bytes(_CHECKSUM_BYTES)
    return RangesText(_as_text(payload), kept, total - kept)


def decode(text: str, next_offset: int) -> SavedRanges | Unusable:
    """Return what a text beside a commit of `next_offset` says, or why it says nothing."""
    if drops_ranges(text):
        return Unusable.MOVED
    version = _ANY_VERSION.match(text)
    if version is None or len(text) > TEXT_BYTES_MAX:
        return Unusable.FOREIGN
    if int(version[1]) > VERSION:
        return Unusable.NEWER
    try:
        payload = base64.b85decode(text[len(_PREFIX) :])
        # Of the last characters several say the same: only the one that was written counts.
        return _read(payload, next_offset) if _as_text(payload) == text else Unusable.BROKEN
    except ValueError:
        return Unusable.BROKEN


def drops_ranges(text: str) -> bool:
    """Tell whether a text says that nothing above its commit counts as finished, whoever else says so."""
    return text == MOVED or text.startswith(ON_SPARK)


def count_offsets(ranges: Ranges) -> int:
    """Return how many offsets lie in ranges."""
    return sum(end - start for start, end in ranges)


def to_runs(next_offset: int, finished: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lengths of what is unfinished and finished by turns, from `next_offset` on."""
    runs: list[int] = []
    position = next_offset
    for start, end in finished:
        runs += (start - position, end - start)
        position = end
    return runs


def from_runs(next_offset: int, runs: Sequence[int]) -> Ranges:
    """Return the ranges. Raises `ValueError` for what are no runs."""
    if len(runs) % 2 or not all(runs[1:]) or next_offset + sum(runs) > LENGTH_MAX:
        raise ValueError("these are no runs")
    ranges, position = [], next_offset
    for unfinished, finished in zip(runs[0::2], runs[1::2], strict=True):
        start = position + unfinished
        position = start + finished
        ranges.append((start, position))
    return tuple(ranges)


def _as_text(payload: bytes) -> str:
    return _PREFIX + base64.b85encode(payload).decode("ascii")


def _read(payload: bytes, next_offset: int) -> SavedRanges | Unusable:
    signed, checksum = payload[:-_CHECKSUM_BYTES], payload[-_CHECKSUM_BYTES:]
    if not signed or zlib.crc32(signed).to_bytes(_CHECKSUM_BYTES) != checksum:
        return Unusable.BROKEN
    form = FORMS.get(signed[0] & ~(_DEFLATED | _INCOMPLETE))
    if form is None:
        return Unusable.NEWER
    bound_to, position = read_varint(signed, 1)
    leader_epoch, position = read_varint(signed, position)
    if bound_to != next_offset:
        return Unusable.OTHER_OFFSET
    body = signed[position:]
    runs = form.read(inflate(body) if signed[0] & _DEFLATED else body)
    finished = from_runs(next_offset, runs)
    if not finished:
        raise ValueError("a text that says nothing")
    newest = leader_epoch - 1 if leader_epoch else None
    return SavedRanges(finished, newest, is_complete=not signed[0] & _INCOMPLETE)


def _best(runs: list[int], body_bytes: int) -> tuple[int, bytes, int]:
    """Return the form, the body and the finished offsets of the text that says most, then of the shortest."""
    fitting = [one for one in _written(runs, body_bytes) if len(one[1]) <= body_bytes]
    if fitting:
        number, body = min(fitting, key=lambda one: len(one[1]))
        return number, body, sum(runs[1::2])
    best = (0, b"", 0)
    shortest = 1
    while sum(runs[1::2]) > best[2]:  # else fewer ranges say no more
        best = max(best, _best_cut(runs, body_bytes), key=lambda one: one[2])
        shortest *= 2
        runs = _without_short(runs, shortest)
    return best


def _written(runs: list[int], body_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each form with all of the runs in it, plain and compressed."""
    for number, form in FORMS.items():
        # A run takes a bit at least; a bitmap compresses what is so even that there are more of them.
        body = form.write(runs) if number == _BITMAP or len(runs) <= body_bytes * 8 else None
        if body is not None:
            yield number, body
            if len(body) > body_bytes // 2:
                yield number | _DEFLATED, deflate(body)


def _best_cut(runs: list[int], body_bytes: int) -> tuple[int, bytes, int]:
    best = (0, b"", 0)
    for number, form in FORMS.items():
        cut = form.cut(runs[: body_bytes * 8], body_bytes)  # a run takes a bit at least
        kept = sum(cut[1::2])
        if kept > best[2]:
            body = form.write(cut)
            if body is not None and len(body) <= body_bytes:
                best = (number, body, kept)
    return _deflated_cut(runs, body_bytes, best)


def _deflated_cut(runs: list[int], body_bytes: int, best: tuple[int, bytes, int]) -> tuple[int, bytes, int]:
    """Return `best`, or a compressed bitmap of more: how many runs fit into one can only be tried."""
    tried = runs[: body_bytes * 64]
    for share in (0.9, 0.7):
        body = FORMS[_BITMAP].write(tried)
        if body is None:
            return best
        body = deflate(body)
        if len(body) <= body_bytes:
            return max(best, (_BITMAP | _DEFLATED, body, sum(tried[1::2])), key=lambda one: one[2])
        tried = tried[: int(len(tried) * share * body_bytes / len(body)) // 2 * 2]
        if sum(tried[1::2]) <= best[2]:
            return best
    return best


def _without_short(runs: Sequence[int], shortest: int) -> list[int]:
    """Return the runs with finished ones below a length told as unfinished."""
    kept: list[int] = []
    unfinished = 0
    for before, finished in zip(runs[0::2], runs[1::2], strict=True):
        unfinished += before
        if finished >= shortest:
            kept += (unfinished, finished)
            unfinished = 0
        else:
            unfinished += finished
    return kept
