"""The forms in which finished ranges become bytes; `ranges` picks the smallest.

Pure. Ranges are written as *runs*: the lengths of what is unfinished and what is finished by turns, beginning
with the unfinished at the first offset. A form writes runs and reads them again; reading takes bytes from
anywhere, so it is bounded in work and memory and raises `ValueError` for what no form has written.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, chain, zip_longest
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a form may have unpacked: a bitmap of 131 000 offsets, more than an app's usual backlog.
BODY_BYTES_MAX = 16 * 1024
# Kafka's offsets end here, and so does every length.
LENGTH_MAX = 2**63 - 1
_ORDERS = range(13)


class Form(Protocol):
    """A way to write runs."""

    def write(self, runs: Sequence[int]) -> bytes | None:
        """Return all of the runs in this form; None where it would be too long to be unpacked."""
        ...

    def read(self, body: bytes) -> list[int]:
        """Return the runs. Raises `ValueError`."""
        ...

    def cut(self, runs: Sequence[int], body_bytes: int) -> list[int]:
        """Return the first of the runs, as many as fit into so many bytes."""
        ...


class VariableLengths:
    """Seven bits of a length in each byte. Good for few and long runs."""

    def write(self, runs: Sequence[int]) -> bytes | None:
        """Return all of the runs in this form."""
        written = {run: varint(run) for run in set(runs)}
        body = b"".join(map(written.__getitem__, runs))
        return body if len(body) <= BODY_BYTES_MAX else None

    def read(self, body: bytes) -> list[int]:
        """Return the runs."""
        runs: list[int] = []
        position = 0
        while position < len(body):
            run, position = read_varint(body, position)
            runs.append(run)
        return runs

    def cut(self, runs: Sequence[int], body_bytes: int) -> list[int]:
        """Return the first of the runs that fit."""
        sizes = {run: len(varint(run)) for run in set(runs)}
        return _whole_runs(runs, list(map(sizes.__getitem__, runs)), body_bytes)


class Bitmap:
    """A bit for each offset. Good where finished and unfinished ones are mixed evenly."""

    def write(self, runs: Sequence[int]) -> bytes | None:
        """Return all of the runs in this form."""
        if sum(runs) > BODY_BYTES_MAX * 8 - 8:
            return None
        parts = zip_longest(map("0".__mul__, runs[0::2]), map("1".__mul__, runs[1::2]), fillvalue="")
        return _pack("".join(chain.from_iterable(parts)))

    def read(self, body: bytes) -> list[int]:
        """Return the runs."""
        bits, position = _unpack(body), 0
        runs: list[int] = []
        while position < len(bits):
            ends = bits.find("1" if len(runs) % 2 == 0 else "0", position)
            ends = len(bits) if ends < 0 else ends
            runs.append(ends - position)
            position = ends
        return runs

    def cut(self, runs: Sequence[int], body_bytes: int) -> list[int]:
        """Return the first of the runs that fit; the last one may be a part of a run."""
        bits_max = max(body_bytes, 0) * 8 - 1
        ends = list(accumulate(runs))
        whole = bisect_right(ends, bits_max)
        cut = list(runs[:whole])
        left = bits_max - (ends[whole - 1] if whole else 0)
        if whole % 2 and whole < len(runs) and left > 0:
            cut.append(left)
        return _ending_finished(cut)


class ExponentialGolomb:
    """Exponential Golomb codes, of one order for what is finished and one for what is not.

    Good for many runs of unequal lengths. The first byte has both orders.
    """

    def write(self, runs: Sequence[int]) -> bytes | None:
        """Return all of the runs in this form."""
        orders = self._orders(runs)
        codes = [
            {run: _golomb(run, order) for run in set(runs[kind::2])} for kind, order in enumerate(orders)
        ]
        unfinished, finished = (map(codes[kind].__getitem__, runs[kind::2]) for kind in (0, 1))
        bits = "".join(chain.from_iterable(zip_longest(unfinished, finished, fillvalue="")))
        if len(bits) > BODY_BYTES_MAX * 8 - 16:
            return None
        return bytes([orders[0] << 4 | orders[1]]) + _pack(bits)

    def read(self, body: bytes) -> list[int]:
        """Return the runs."""
        if not body:
            raise ValueError("no orders")
        orders, bits = (body[0] >> 4, body[0] & 15), _unpack(body[1:])
        runs: list[int] = []
        position = 0
        while position < len(bits):
            run, position = _read_golomb(bits, position, orders[len(runs) % 2])
            runs.append(run)
        return runs

    def cut(self, runs: Sequence[int], body_bytes: int) -> list[int]:
        """Return the first of the runs that fit, by the orders that suit all of them."""
        orders = self._orders(runs)
        sizes = [
            {run: _golomb_bits(run, order) for run in set(runs[kind::2])} for kind, order in enumerate(orders)
        ]
        unfinished, finished = (map(sizes[kind].__getitem__, runs[kind::2]) for kind in (0, 1))
        needed = list(chain.from_iterable(zip_longest(unfinished, finished, fillvalue=0)))
        return _whole_runs(runs, needed, (body_bytes - 1) * 8 - 1)

    @staticmethod
    def _orders(runs: Sequence[int]) -> tuple[int, int]:
        return _best_order(Counter(runs[0::2])), _best_order(Counter(runs[1::2]))


# By the number that names them in the text: never give one to another form. A body in one of these forms
# may be compressed, too, which stands next to the number.
FORMS: dict[int, Form] = {1: VariableLengths(), 2: Bitmap(), 3: ExponentialGolomb()}


def bitmap_of(next_offset: int, finished: Sequence[tuple[int, int]], bytes_max: int) -> bytes | None:
    """Return what `Bitmap` writes of the runs of ranges, without making these; None if it is too long."""
    offsets = finished[-1][1] - next_offset
    if offsets > bytes_max * 8 - 1 or offsets > BODY_BYTES_MAX * 8 - 8:
        return None
    bits = bytearray(b"0") * offsets
    for start, end in finished:
        bits[start - next_offset : end - next_offset] = b"1" * (end - start)
    return _pack(bits.decode())


def deflate(body: bytes) -> bytes:
    """Return a body compressed. Good where runs repeat, such as every other record."""
    return zlib.compress(body, 6, -15)


def inflate(body: bytes) -> bytes:
    """Return what was compressed. Raises `ValueError`."""
    unpacker = zlib.decompressobj(-15)
    try:
        inner = unpacker.decompress(body, BODY_BYTES_MAX)
    except zlib.error as broken:
        raise ValueError(str(broken)) from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the list of ranges is too long, or cut off")
    return inner


def varint(number: int) -> bytes:
    """Return a number in bytes of seven bits, the lowest first."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def read_varint(body: bytes, position: int) -> tuple[int, int]:
    """Return the number that begins there, and the position behind it. Raises `ValueError`."""
    number = shift = 0
    while position < len(body) and shift < 63:
        byte = body[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise ValueError("a number in the metadata is cut off")


def _whole_runs(runs: Sequence[int], sizes: Sequence[int], size_max: int) -> list[int]:
    return _ending_finished(list(runs[: bisect_right(list(accumulate(sizes)), size_max)]))


def _ending_finished(runs: list[int]) -> list[int]:
    return runs[: len(runs) // 2 * 2]


def _pack(bits: str) -> bytes:
    # The leading one marks where the bits begin.
    number = int("1" + bits, 2)
    return number.to_bytes((number.bit_length() + 7) // 8)


def _unpack(body: bytes) -> str:
    number = int.from_bytes(body)
    if number == 0:
        raise ValueError("no bits")
    return format(number, "b")[1:]


def _golomb(run: int, order: int) -> str:
    number = run + (1 << order)
    return "0" * (number.bit_length() - 1 - order) + format(number, "b")


def _golomb_bits(run: int, order: int) -> int:
    return 2 * (run + (1 << order)).bit_length() - 1 - order


def _best_order(counts: Counter[int]) -> int:
    def total(order: int) -> int:
        return sum(count * _golomb_bits(run, order) for run, count in counts.items())

    return min(_ORDERS, key=total)


def _read_golomb(bits: str, position: int, order: int) -> tuple[int, int]:
    first = bits.find("1", position)
    ends = first + (first - position) + order + 1
    if first < 0 or first - position > 63 or ends > len(bits):
        raise ValueError("a code in the list of ranges is cut off")
    return int(bits[first:ends], 2) - (1 << order), ends
