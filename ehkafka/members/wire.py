"""What supervisor and member say to each other: frames on a socket, each a message of JSON or the boot.

A request is `{"id": …, "do": …, "with": {…}}`, its answer `{"id": …, "answer": …}` or `{"id": …, "error":
…}`; a notice, which nobody has asked for, `{"notice": …, …}`. All values are plain, so that one who asks need
not be in the same process as who answers. Nothing in here knows what is asked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    import socket

HEAD: Final = struct.Struct("=I")
# A snapshot of 10 000 partitions has some 5 MB; a frame beyond is none of ours.
FRAME_BYTES_MAX: Final = 256 << 20
# orjson refuses numbers beyond these.
_NUMBER_MIN, _NUMBER_MAX = -(1 << 63), (1 << 64) - 1
CHUNK_BYTES: Final = 1 << 16


def packed(message: dict[str, Any]) -> bytes:
    """Return a message as a frame.

    Text that UTF-8 does not know, such as half a surrogate, is escaped; of a number that has more than 64
    bits the digits are sent, as text.
    """
    try:
        body = orjson.dumps(message)
    except TypeError:
        body = orjson.dumps(_sayable(message), default=str)
    return framed(body)


def framed(body: bytes) -> bytes:
    """Return bytes as a frame."""
    return HEAD.pack(len(body)) + body


def unpacked(body: bytes) -> dict[str, Any]:
    """Return the message in a frame."""
    message = orjson.loads(body)
    assert isinstance(message, dict)
    return message


def read_frame(connection: socket.socket) -> bytes | None:
    """Wait for a frame on a blocking socket; None at its end."""
    head = _read_exactly(connection, HEAD.size)
    return None if head is None else _read_exactly(connection, HEAD.unpack(head)[0])


def _read_exactly(connection: socket.socket, length: int) -> bytes | None:
    found = bytearray()
    while len(found) < length:
        try:
            part = connection.recv(min(length - len(found), CHUNK_BYTES))
        except OSError:  # the other side was killed with something of ours unread
            return None
        if not part:
            return None
        found += part
    return bytes(found)


class Frames:
    """Puts together what arrives in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take a piece and return the frames that are whole now. Raises `ValueError` for what is no frame."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEAD.size:
            (length,) = HEAD.unpack_from(self._buffer)
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._buffer) < HEAD.size + length:
                break
            found.append(bytes(self._buffer[HEAD.size : HEAD.size + length]))
            del self._buffer[: HEAD.size + length]
        return found


def _sayable(value: Any) -> Any:
    """Return a value as JSON can say it. For what was refused: it looks at all there is.

    An error may hold bytes that Python keeps as halves of characters: they are escaped.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_sayable(str(name)): _sayable(one) for name, one in value.items()}
    if isinstance(value, int) and not _NUMBER_MIN <= value <= _NUMBER_MAX:
        return str(value)
    return [_sayable(one) for one in value] if isinstance(value, list | tuple) else value
