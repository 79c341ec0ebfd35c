"""Batches that no client can read, written to an embedded broker, which stores whatever it is sent."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_PRODUCE, _VERSION = 0, 3
# In a batch: where its format, its checksum and its attributes (the compression) stand.
_MAGIC, _CRC, _CODEC = 16, 17, 22

# What is wrong -> what the client reports; empty: nothing at all.
CODES: Final = {
    "checksum": "_BAD_MSG",
    "compression": "_BAD_COMPRESSION",
    "codec": "_NOT_IMPLEMENTED",
    "format": "_NOT_IMPLEMENTED",
    "length": "",
}


def good_batch(values: Iterable[bytes]) -> bytes:
    """Return a batch of records without keys."""
    return _batch([_record(index, value) for index, value in enumerate(values)])


def broken_batch(what: str, records: int = 1, value: bytes = b"never to be seen" * 16) -> bytes:
    """Return a batch of so many records that cannot be read; `what` is one of `CODES`."""
    # Long text: behind a wrong checksum librdkafka takes a place about 100 bytes before the end of the batch
    # for the begin of another one. What short records have there may end the process.
    made = [_record(index, value) for index in range(records)]
    if what == "length":
        return _batch([_number(1 << 30), *made], records)
    batch = bytearray(_batch(made, records))
    if what == "checksum":
        batch[_CRC] ^= 0xFF
    else:
        place, byte = {"compression": (_CODEC, 1), "codec": (_CODEC, 7), "format": (_MAGIC, 9)}[what]
        batch[place] = byte
        if place == _CODEC:  # whose checksum is right
            batch[_CRC : _CRC + 4] = struct.pack(">I", _crc32c(bytes(batch[_CRC + 4 :])))
    return bytes(batch)


def write_batch(broker: Any, topic: str, batch: bytes, partition: int = 0) -> None:
    """Append it to a partition."""
    host, port = broker.bootstrap.split(",")[0].rsplit(":", 1)
    name = topic.encode()
    body = struct.pack(">hhih", _PRODUCE, _VERSION, 1, 4) + b"test" + struct.pack(">hhi", -1, -1, 5_000)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, partition, len(batch)) + batch
    with socket.create_connection((host, int(port)), timeout=10.0) as client:
        client.sendall(struct.pack(">i", len(body)) + body)
        answer = client.recv(256)
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(name) + 4 + 4)
    assert error == 0, f"the broker refused it: {error}"


def _batch(records: list[bytes], count: int | None = None) -> bytes:
    number = len(records) if count is None else count
    body = struct.pack(">hiqqqhii", 0, number - 1, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, number)
    body += b"".join(records)
    return struct.pack(">qiibI", 0, len(body) + 9, 0, 2, _crc32c(body)) + body


def _record(index: int, value: bytes) -> bytes:
    body = b"\0" + _number(0) + _number(index) + _number(-1) + _number(len(value)) + value + _number(0)
    return _number(len(body)) + body


def _number(value: int) -> bytes:
    """Return a number as records have it: signs folded in, seven bits a byte."""
    folded, out = (value << 1) ^ (value >> 63), b""
    while folded > 0x7F:
        out += bytes([folded & 0x7F | 0x80])
        folded >>= 7
    return out + bytes([folded])


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
