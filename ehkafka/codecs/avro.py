"""Reads payloads of Avro within bounds, which the native reader does not have.

A few bytes can nest a type within itself until the stack ends and the process with it, or count millions of
values that take no bytes. So a schema is measured once. If its payloads can do so, each is walked in Python
before it is read; payloads of all other schemas are read at once. Called by workers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from ehkafka.codecs.reason import Misfit

if TYPE_CHECKING:
    from io import BytesIO

DEPTH_MAX: Final = 200
"""How deep records, arrays and maps may lie in one another."""
VALUES_FREE: Final = 100_000
VALUES_A_BYTE: Final = 4
"""A payload has at most `VALUES_FREE` values and so many for each of its bytes."""
DECIMAL_BYTES_MAX: Final = 8_192
"""How long a decimal may be. Making one takes the square of that, and no other thread runs meanwhile."""

_SCHEMAS_MAX: Final = 1_000
_LONG_BITS_MAX: Final = 64
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_RECORDS: Final = ("record", "error")
_INSIDE: Final = {"array": "items", "map": "values"}
_LENGTHS: Final = ("bytes", "string")
_PRIMITIVES: Final = frozenset({*_WIDTHS, *_LENGTHS, "int", "long"})


def read(payload: BytesIO, schema: Any, *options: Any, **named: Any) -> Any:
    """Return the value as `fastavro.schemaless_reader` does. Raises `Misfit`, and what that raises."""
    import fastavro  # noqa: PLC0415 - an extra

    bounds = _bounds_of(schema)
    if payload.getbuffer().nbytes > bounds.quick_bytes:
        begin = payload.tell()
        bounds.check(payload.read())
        payload.seek(begin)
    return fastavro.schemaless_reader(payload, schema, *options, **named)


# By a schema's identity; the bounds keep it alive. Each look and each change is one step of the interpreter.
_measured: dict[int, AvroBounds] = {}


def _bounds_of(schema: object) -> AvroBounds:
    found = _measured.get(id(schema))
    if found is None:
        if len(_measured) >= _SCHEMAS_MAX:
            _measured.clear()
        _measured[id(schema)] = found = AvroBounds(schema)
    return found


class AvroBounds:
    """What payloads of one schema may do."""

    def __init__(self, schema: Any) -> None:
        import fastavro  # noqa: PLC0415

        self._given = schema
        self._named: dict[str, Any] = {}
        self._schema = fastavro.parse_schema(schema, self._named)
        self._records: dict[str, float] = {}
        self._has_decimals = False
        # What nests deeper than a schema's own text has a record for each level.
        harmless = self._excess(self._schema) <= VALUES_FREE and len(self._records) <= DEPTH_MAX
        self.quick_bytes = 0 if not harmless else DECIMAL_BYTES_MAX if self._has_decimals else math.inf
        """Payloads up to this length need no walk."""

    def check(self, data: bytes) -> None:
        """Raise `Misfit` for a payload that must not be read."""
        try:
            end = _AvroWalk(self._named, data).end_of(self._schema, 0, 0)
        except IndexError:
            end = len(data) + 1
        if end > len(data):
            raise Misfit("it ends before its last value")

    def _excess(self, schema: Any) -> float:
        """Return by how many values one of this type may exceed `VALUES_A_BYTE`; infinite if recursive."""
        if isinstance(schema, list):
            return max(map(self._excess, schema)) - VALUES_A_BYTE
        schema, kind = _resolved(schema, self._named)
        if kind in _RECORDS:
            if (name := schema["name"]) not in self._records:
                self._records[name] = math.inf  # until it is known: what finds this lies within it
                self._records[name] = 1 + math.fsum(self._excess(one["type"]) for one in schema["fields"])
            return self._records[name]
        if kind in _INSIDE:
            key = 1 - VALUES_A_BYTE if kind == "map" else 0
            return math.inf if self._excess(schema[_INSIDE[kind]]) + key > 0 else 1 - VALUES_A_BYTE
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            self._has_decimals = True
        return 1 - VALUES_A_BYTE * (schema["size"] if kind == "fixed" else _WIDTHS.get(kind, 1))


class _AvroWalk:
    """Finds where each value of a payload ends, and spends what it may on them."""

    def __init__(self, named: dict[str, Any], data: bytes) -> None:
        self._named = named
        self._data = data
        self._left = VALUES_FREE + VALUES_A_BYTE * len(data)

    def end_of(self, schema: Any, at: int, depth: int) -> int:
        """Return where a value ends that begins at a place. Raises `IndexError` beyond the end."""
        if isinstance(schema, list):
            branch, at = self._long(at)
            if not 0 <= branch < len(schema):
                raise Misfit("it names a branch that the union type does not have")
            return self.end_of(schema[branch], at, depth)
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            limit = "is nested too deep" if depth > DEPTH_MAX else "declares more values than its bytes hold"
            raise Misfit(f"it {limit}")
        schema, kind = _resolved(schema, self._named)
        if kind in _RECORDS:
            for field in schema["fields"]:
                at = self.end_of(field["type"], at, depth + 1)
            return at
        if kind in _INSIDE:
            return self._end_of_blocks(schema[_INSIDE[kind]], at, depth + 1, has_keys=kind == "map")
        if (width := _WIDTHS.get(kind)) is not None:
            return at + width
        if kind != "fixed" and kind not in _LENGTHS:
            return self._long(at)[1]
        length, at = (schema["size"], at) if kind == "fixed" else self._long(at)
        is_decimal = isinstance(schema, dict) and schema.get("logicalType") == "decimal"
        if not 0 <= length <= (DECIMAL_BYTES_MAX if is_decimal else len(self._data)):
            raise Misfit("it contains an impossible length")
        return at + int(length)

    def _end_of_blocks(self, items: object, at: int, depth: int, *, has_keys: bool) -> int:
        while True:
            count, at = self._long(at)
            if count == 0:
                return at
            length, begin = self._long(at) if count < 0 else (None, at)
            at = begin
            for _ in range(abs(count)):
                at = self.end_of("string", at, depth) if has_keys else at
                at = self.end_of(items, at, depth)
            # A reader that skips the block goes by its length.
            if length is not None and at != begin + length:
                raise Misfit("a block is shorter or longer than the block's length field")

    def _long(self, at: int) -> tuple[int, int]:
        number, shift = self._data[at], 7
        at += 1
        while number >> shift and shift < _LONG_BITS_MAX:  # the last byte says that another one follows
            number += (self._data[at] - 1) << shift
            shift += 7
            at += 1
        if number >> _LONG_BITS_MAX:
            raise Misfit("it contains a number of more than 64 bits")
        return (number >> 1) ^ -(number & 1), at


def _resolved(schema: Any, named: dict[str, Any]) -> tuple[object, str]:
    """Return a type's definition, and its kind. A primitive type goes before a record with its name."""
    if isinstance(schema, str) and schema not in _PRIMITIVES:
        schema = named[schema]
    return schema, schema if isinstance(schema, str) else schema["type"]
