"""A clock of one node that can be stepped, with Python alone: no other process's clock moves.

All of Kafka reads the time of day in one method of one class, `SystemTime.milliseconds`. A copy of the class
comes first on the node's class path; its method adds the modification time of a file in the node's folder: an
offset, 0 while there is no such file. What Kafka measures by `nanoTime` goes on as it is, as it does when a
real clock is stepped.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# In the node's folder, where its Java runs.
CLASSES: Final = "classes"
OFFSET: Final = "clock-offset"
CLASS_FILE: Final = "org/apache/kafka/common/utils/SystemTime.class"

UTF8, CLASS, STRING, METHOD, NAME_AND_TYPE = 1, 7, 8, 10, 12
# How many bytes follow the tag of a constant; those of eight bytes (long, double) take two numbers.
OF_TWO: Final = {CLASS: 2, STRING: 2, 16: 2, 19: 2, 20: 2}
OF_FOUR: Final = {3: 4, 4: 4, 9: 4, METHOD: 4, 11: 4, NAME_AND_TYPE: 4, 17: 4, 18: 4}
SIZES: Final = OF_TWO | {15: 3} | OF_FOUR | {5: 8, 6: 8}


class SteppedClock:
    """The clock of the node with this folder. Made before the node's first start, from Kafka's JARs."""

    def __init__(self, folder: Path, jars: Sequence[Path]) -> None:
        self._file = folder / OFFSET
        self._offset_s = 0.0
        (clients,) = (jar for jar in jars if jar.name.startswith("kafka-clients-"))
        target = folder / CLASSES / CLASS_FILE
        target.parent.mkdir(parents=True)
        with ZipFile(clients) as archive:
            target.write_bytes(with_offset(archive.read(CLASS_FILE)))

    def step(self, by_s: float) -> None:
        """Move it by so much, on top of earlier steps."""
        self._offset_s += by_s
        self._file.touch()
        os.utime(self._file, (self._offset_s, self._offset_s))


def with_offset(original: bytes) -> bytes:
    """Return the class with another `milliseconds`.

    That is: `System.currentTimeMillis() + new File(OFFSET).lastModified()`.
    """
    constants = Constants(original)
    now = constants.method("java/lang/System", "currentTimeMillis", "()J")
    file = constants.class_of("java/io/File")
    name = constants.text(OFFSET)
    new = constants.method("java/io/File", "<init>", "(Ljava/lang/String;)V")
    modified = constants.method("java/io/File", "lastModified", "()J")
    # invokestatic now; nop; new; dup; ldc_w; invokespecial; invokevirtual; ladd; lreturn. With the nop an
    # instruction begins behind the fourth byte, where the table of local variables says that `this` ends.
    code = struct.pack(
        ">BHBBHBBHBHBHBB",
        0xB8,
        now,
        0x00,
        0xBB,
        file,
        0x59,
        0x13,
        name,
        0xB7,
        new,
        0xB6,
        modified,
        0x61,
        0xAD,
    )
    pool, rest = constants.pool(), original[constants.end :]
    before = _code(2, struct.pack(">BHB", 0xB8, now, 0xAD))
    if rest.count(before) != 1:
        raise EhkafkaError("This version of Kafka reads the clock another way; its clock cannot be stepped")
    at = rest.index(before)
    # The length of the whole Code attribute stands before it.
    (length,) = struct.unpack_from(">I", rest, at - 4)
    after = _code(5, code)
    grown = struct.pack(">I", length + len(after) - len(before))
    return original[:8] + pool + rest[: at - 4] + grown + after + rest[at + len(before) :]


def _code(stack: int, code: bytes) -> bytes:
    """Return how a Code attribute of a method without arguments begins: limits, length, instructions."""
    return struct.pack(">HHI", stack, 1, len(code)) + code


class Constants:
    """The constants of a class file, to which more are added. `end` is where they end in the original."""

    def __init__(self, original: bytes) -> None:
        (self._count,) = struct.unpack_from(">H", original, 8)
        self._original = original
        self._added = b""
        self._known: dict[bytes, int] = {}
        at, number = 10, 1
        while number < self._count:
            tag = original[at]
            size = 2 + int.from_bytes(original[at + 1 : at + 3], "big") if tag == UTF8 else SIZES[tag]
            self._known.setdefault(original[at : at + 1 + size], number)
            at += 1 + size
            number += 2 if size == 8 and tag != UTF8 else 1
        self.end = at

    def pool(self) -> bytes:
        """Return the number of constants and the constants."""
        return struct.pack(">H", self._count) + self._original[10 : self.end] + self._added

    def method(self, owner: str, name: str, kind: str) -> int:
        """Return the number of a method."""
        named = self._number(struct.pack(">BHH", NAME_AND_TYPE, self._utf8(name), self._utf8(kind)))
        return self._number(struct.pack(">BHH", METHOD, self.class_of(owner), named))

    def class_of(self, name: str) -> int:
        """Return the number of a class."""
        return self._number(struct.pack(">BH", CLASS, self._utf8(name)))

    def text(self, value: str) -> int:
        """Return the number of a string."""
        return self._number(struct.pack(">BH", STRING, self._utf8(value)))

    def _utf8(self, value: str) -> int:
        return self._number(struct.pack(">BH", UTF8, len(value)) + value.encode("ascii"))

    def _number(self, constant: bytes) -> int:
        """Return the number of a constant, which is added unless it is there."""
        if constant not in self._known:
            self._known[constant] = self._count
            self._added += constant
            self._count += 1
        return self._known[constant]
