"""A log that handlers keep of their own calls, cheap enough for the quickest of them.

A history comes from the engine, and writing one takes longer than the handlers that chunks are for. Here the
handler itself notes when a call begins and ends, in 24 bytes of a file that is mapped into memory: about a
microsecond a note, in one order over all threads, and what is noted survives `kill -9` (not the machine). The
log judges nothing. Notes are taken on any thread of one process; read by another process or afterwards.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ehkafka.records import Record

# When, kind, attempt, partition, offset, key.
_NOTE = struct.Struct("<QBBHI8s")
# A kind of 0 was never written: its place was taken by a thread that was killed before it wrote.
BEGUN, ENDED, FAILED = 1, 2, 3


class Call(NamedTuple):
    """A note: a call began, ended or failed. `at_ns` is `time.monotonic_ns()`; the key may be cut."""

    at_ns: int
    kind: int
    attempt: int
    partition: int
    offset: int
    key: bytes


class CallLog:
    """The notes of one process in a new file, for records with keys of up to 8 bytes, none of them NUL."""

    def __init__(self, path: str | os.PathLike[str], notes_max: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, notes_max * _NOTE.size)
            self._map = mmap.mmap(descriptor, notes_max * _NOTE.size)
        finally:
            os.close(descriptor)
        # A place of its own for each note: `next` is one step under the interpreter's lock.
        self._places = itertools.count(0, _NOTE.size)

    def note(self, kind: int, record: Record) -> None:
        """Note that a call has begun, or is about to return or to raise. Raises when the log is full."""
        offset, partition, key = record.offset(), record.partition(), record.key()
        what = (time.monotonic_ns(), kind, record.attempt, partition, offset, key)
        _NOTE.pack_into(self._map, next(self._places), *what)


def read_calls(path: Path) -> Iterator[Call]:
    """Yield the notes in the order in which they were taken."""
    for at_ns, kind, attempt, partition, offset, key in _NOTE.iter_unpack(path.read_bytes()):
        if kind:
            yield Call(at_ns, kind, attempt, partition, offset, key.rstrip(b"\0"))
