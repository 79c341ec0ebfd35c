"""Says hello in Kafka's protocol on an open connection, and tells what sort of server answers.

ApiVersions, version 0, is the one request that every broker answers, before any authentication.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_API_VERSIONS = 18
_CORRELATION = 0x65686B61
_CLIENT_ID = b"ehkafka"
# Far above any answer of a broker, far below what another protocol's first bytes read as a length.
_ANSWER_BYTES_MAX = 1 << 20
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16


class Speaks(enum.Enum):
    """What a server's first bytes sound like."""

    KAFKA = "it speaks Kafka"
    TLS = "it speaks TLS"
    HTTP = "it speaks HTTP"
    AMQP = "it speaks AMQP"
    UNKNOWN = "its answer is no Kafka"
    CLOSED = "it closes the connection"
    SILENT = "it does not answer"


def who_answers(connection: socket.socket) -> Speaks:
    """Say hello and listen, within the connection's time-out."""
    try:
        connection.sendall(hello())
        return _recognised(read_up_to(connection, 8))
    except TimeoutError:
        return Speaks.SILENT
    except OSError:
        return Speaks.CLOSED


def hello() -> bytes:
    """Return the request."""
    body = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION, len(_CLIENT_ID)) + _CLIENT_ID
    return struct.pack(">i", len(body)) + body


def read_up_to(connection: socket.socket, count: int) -> bytes:
    """Return so many bytes, or fewer if the server closes."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def _recognised(start: bytes) -> Speaks:
    if not start:
        return Speaks.CLOSED
    if start[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and start[1:2] == b"\x03":
        return Speaks.TLS
    if start.startswith(b"HTTP"):
        return Speaks.HTTP
    if start.startswith(b"AMQP"):
        return Speaks.AMQP
    if len(start) == 8:
        length, correlation = struct.unpack(">ii", start)
        if correlation == _CORRELATION and 0 < length <= _ANSWER_BYTES_MAX:
            return Speaks.KAFKA
    return Speaks.UNKNOWN
