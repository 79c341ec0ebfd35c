"""Pipes between an app and its worker processes: whole frames, and claims on the records of a batch.

A frame is its length, a kind and a body. A claim is one byte for each record of a batch: the child takes one
before it starts a record, and the parent may take back those that are left. The kernel gives each byte to
one of them only, so both know, whenever a child dies or stalls, which records it has started. Nothing in
here knows what the bytes mean; both sides use it, each from one thread.

Measured (2 cores, per record of 200 bytes in batches of 64, with a reply for each batch): marshal over a
pipe 0.6 to 0.8 µs, pickle 0.9 to 1.2, own framing by `struct` 2.7 to 2.9; a socket pair or shared memory in
place of the pipe saves nothing. A claim costs 0.65 µs.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import struct
import termios
import time
from typing import NamedTuple

HEAD = struct.Struct("=Qc")
CHUNK_BYTES = 1 << 20

# Kinds of frames: to the child, then from it.
BOOT, BATCH = b"b", b"m"
READY, REFUSED, SENT, FAILED, DONE, TORN_DOWN = b"r", b"x", b"o", b"f", b"d", b"t"
# From its user's code, between those or amid them: see `ProcessWorkers.takes_aside`.
STOP, KIND = b"s", b"k"
# What a child that is ready says of its logging, where that leads nowhere and the parent's does not.
SILENT = b"silent"


class Frame(NamedTuple):
    """What came in one piece."""

    kind: bytes
    body: bytes


def send(fd: int, kind: bytes, body: bytes) -> None:
    """Write a frame. Raises `OSError` when nobody is there to read it."""
    head = HEAD.pack(len(body), kind)
    view = memoryview(head + body if len(body) <= CHUNK_BYTES else head)
    while view:
        view = view[os.write(fd, view) :]
    if len(body) > CHUNK_BYTES:
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view) :]


def read_frame(fd: int) -> Frame | None:
    """Wait for a frame on a blocking pipe; None at its end."""
    head = _read_exactly(fd, HEAD.size)
    if head is None:
        return None
    length, kind = HEAD.unpack(head)
    body = _read_exactly(fd, length)
    return None if body is None else Frame(kind, body)


def _read_exactly(fd: int, length: int) -> bytes | None:
    parts = []
    while length:
        part = os.read(fd, min(length, CHUNK_BYTES))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class FrameReader:
    """Collects frames from a pipe without ever waiting longer than it is asked to."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        # The other end is closed and everything before its end was read.
        self.ended = False

    def take(self) -> list[Frame]:
        """Return the frames that are complete by now."""
        with contextlib.suppress(BlockingIOError):
            while not self.ended:
                part = os.read(self._fd, CHUNK_BYTES)
                self._buffer += part
                self.ended = not part
                if len(part) < CHUNK_BYTES:
                    break  # there is no more
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def take_until(self, deadline_s: float) -> list[Frame]:
        """Return the next frames, waiting for the first; none at the deadline (monotonic) or the end."""
        while not (frames := self.take()) and not self.ended:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            self._poll.poll(left_s * 1000)
        return frames

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < HEAD.size:
            return None
        length, kind = HEAD.unpack_from(buffer)
        end = HEAD.size + length
        if len(buffer) < end:
            return None
        body = bytes(buffer[HEAD.size : end])
        del buffer[:end]
        return Frame(kind, body)


class Claims:
    """One side's view of the claims. The read end is shared and never blocks, the parent alone writes."""

    def __init__(self, read_fd: int, write_fd: int = -1) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd

    def offer(self, count: int) -> None:
        """Put down a claim for each record of a batch. Parent, while the child has no batch."""
        os.write(self._write_fd, bytes(count))

    def take_one(self) -> bool:
        """Take the claim on the next record; False when the parent took the rest back. Child."""
        try:
            return bool(os.read(self._read_fd, 1))
        except BlockingIOError:
            return False

    def take_back(self) -> int:
        """Take all that are left; return how many. Parent."""
        taken = 0
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._read_fd, CHUNK_BYTES):
                taken += len(part)
        return taken

    def left(self) -> int:
        """How many nobody has taken yet. Parent."""
        found = array.array("i", [0])
        fcntl.ioctl(self._read_fd, termios.FIONREAD, found)
        return found[0]
