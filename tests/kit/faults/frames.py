"""Kafka's frames on a connection, and their fields in the old encoding and in the flexible one. Pure."""

from __future__ import annotations


class Frames:
    """Cuts a stream into frames: four bytes of size, then so many bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the frames that are whole now."""
        self._rest += data
        frames, at = [], 0
        while len(self._rest) - at >= 4:
            end = at + 4 + int.from_bytes(self._rest[at : at + 4], "big")
            if end > len(self._rest):
                break
            frames.append(bytes(self._rest[at:end]))
            at = end
        del self._rest[:at]
        return frames


class Fields:
    """Reads the fields of a frame one after the other, and overwrites numbers.

    Flexible versions have variable lengths, one more than the number, and tagged fields behind each
    structure.
    """

    def __init__(self, frame: bytes, at: int = 0, *, flexible: bool = False) -> None:
        self.frame = bytearray(frame)
        self.at = at
        self.flexible = flexible

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self.at += size
        return bytes(self.frame[self.at - size : self.at])

    def number(self, size: int = 4) -> int:
        """Return the number in so many bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def put(self, value: int, size: int) -> None:
        """Write a number in place of the one that is here."""
        self.frame[self.at : self.at + size] = value.to_bytes(size, "big", signed=True)
        self.at += size

    def varint(self) -> int:
        """Return a number of variable length."""
        value = shift = 0
        while (byte := self.take(1)[0]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def count(self) -> int:
        """Return how many elements an array has."""
        return self.varint() - 1 if self.flexible else self.number()

    def text(self) -> str:
        """Return a text, empty for none."""
        return self.take(max(0, self.varint() - 1 if self.flexible else self.number(2))).decode()

    def tags(self) -> None:
        """Pass the tagged fields, where the version has them."""
        for _ in range(self.varint() if self.flexible else 0):
            self.varint()
            size = self.varint()
            self.at += size
