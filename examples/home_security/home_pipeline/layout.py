"""What lies in the container: blobs of JSON lines, a line for each home, sensor kind and window of time.

Pure, and the same for both engines: `Row` with its writer and its one reader. Rows *add up*: a window of a
home may come in one row (Spark writes it when the watermark has passed) or in several (the local engine
writes what came since its last blob). What must not be counted is a row of the kind `spoilt`. Where they lie:

```
spark/batch=000000000007/part-00001.jsonl    counts when the batch's _manifest.json is there, too
local/readings/00003/00000000000000001234.jsonl    counts as it is: partition, offset of the first record
```

A blob that counts never changes, and says what the next one will be called (`Guess`), so that a reader need
not list thousands of names again and again: the next batch has the next number, the next blob of a partition
begins behind the offset that the last one's metadata names. A line without these columns, or none of JSON, is
refused with its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import orjson

from home_pipeline import rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from home_pipeline.readings import Reading

SUFFIX = ".jsonl"
MANIFEST = "_manifest.json"
LAST_OFFSET = "last_offset"
_BATCH = re.compile(r"(^|/)batch=[0-9]+/[^/]*$")
_NUMBERED_BATCH = re.compile(r"(.*batch=)([0-9]{12})/[^/]*")
_CHAINED = re.compile(r"(local/[^/]+/[0-9]{5}/)[0-9]{20}\.jsonl")
LINE_BYTES_MAX = 1_000
BLOB_BYTES_MAX = 64 * 1024 * 1024
_NAMES = tuple(re.compile(pattern) for pattern in (rules.HOME, rules.KIND, rules.UNIT))


class LayoutError(ValueError):
    """A blob is not of this layout: which one and which line."""


class Row(NamedTuple):
    """What one sensor kind of one home said in a window: how often, how high, how low, and last."""

    home: str
    kind: str
    unit: str
    begin_s: int
    length_s: int
    readings: int
    alarms: int
    total: float
    low: float
    high: float
    last: float
    last_at_us: int
    alarm_at_us: int
    """When the latest of its alarms was; 0 without any."""


class Guess(NamedTuple):
    """What the next blob of a series will most likely be called; a series is a partition or the batches."""

    series: str
    name: str


COLUMNS = Row._fields
_INTEGERS = ("begin_s", "length_s", "readings", "alarms", "last_at_us", "alarm_at_us")
_NUMBERS = ("total", "low", "high", "last")


def rows_of(readings: Iterable[Reading], windows: rules.Windows) -> list[Row]:
    """Count readings into rows, sorted by home. Sums are exact while values are binary fractions."""
    rows: dict[tuple[str, str, str, int], Row] = {}
    for reading in readings:
        key = (reading.home, reading.kind, reading.unit, windows.begin_s(reading.at_us))
        known = rows.get(key)
        new = _first(reading, windows)
        rows[key] = new if known is None else added(known, new)
    return [rows[key] for key in sorted(rows)]


def added(one: Row, other: Row) -> Row:
    """Return two rows of one home, kind and window as one."""
    # Two of the same time: the larger one, so that it does not matter which is added to which.
    latest = max(one, other, key=lambda row: (row.last_at_us, row.last))
    return Row(
        *one[:5],
        one.readings + other.readings,
        one.alarms + other.alarms,
        one.total + other.total,
        min(one.low, other.low),
        max(one.high, other.high),
        latest.last,
        latest.last_at_us,
        max(one.alarm_at_us, other.alarm_at_us),
    )


def encode(rows: Iterable[Row]) -> bytes:
    """Return a blob's content."""
    return b"".join(orjson.dumps(row._asdict()) + b"\n" for row in rows)


def check_size(name: str, size: int) -> None:
    """Refuse a blob that this pipeline did not write, before it is read. Raises `LayoutError`."""
    if size > BLOB_BYTES_MAX:
        raise LayoutError(f"blob {name}: {size} bytes, at most {BLOB_BYTES_MAX} are read")


def decode(body: bytes, name: str) -> list[Row]:
    """Return a blob's rows. Raises `LayoutError`."""
    rows = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if line:
            rows.append(_row(line, f"blob {name}, line {number}"))
    return rows


def complete(names: Collection[str]) -> list[str]:
    """Return which of these names, a whole listing, are blobs of rows that count."""
    manifests = {name.removesuffix(MANIFEST) for name in names if name.endswith(MANIFEST)}
    return [
        name
        for name in names
        if name.endswith(SUFFIX) and (not is_of_a_batch(name) or name[: name.rindex("/") + 1] in manifests)
    ]


def is_of_a_batch(name: str) -> bool:
    """Tell whether a blob holds whole windows: Spark's do, the local engine's hold what came."""
    return _BATCH.search(name) is not None


def named_in(manifest: bytes, name: str) -> list[str]:
    """Return the blobs of rows that a batch's manifest names, in its own folder. Raises `LayoutError`."""
    try:
        names = [blob["name"] for blob in orjson.loads(manifest)["blobs"]]
        folder = name.removesuffix(MANIFEST)
        if all(one.startswith(folder) and one.endswith(SUFFIX) for one in names):
            return names
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise LayoutError(f"blob {name}: not the manifest of a batch")


def next_after(name: str, metadata: Mapping[str, str]) -> Guess | None:
    """Return what will come after a blob that was read, None if it is unknown."""
    if batch := _NUMBERED_BATCH.fullmatch(name):
        return Guess(batch[1], f"{batch[1]}{int(batch[2]) + 1:012d}/{MANIFEST}")
    last = metadata.get(LAST_OFFSET, "")
    if (chained := _CHAINED.fullmatch(name)) and last.isascii() and last.isdigit() and len(last) < 20:
        return Guess(chained[1], f"{chained[1]}{int(last) + 1:020d}{SUFFIX}")
    return None


def _first(reading: Reading, windows: rules.Windows) -> Row:
    value = reading.value
    return Row(
        reading.home,
        reading.kind,
        reading.unit,
        windows.begin_s(reading.at_us),
        windows.length_s,
        1,
        int(reading.alarm),
        value,
        value,
        value,
        value,
        reading.at_us,
        reading.at_us if reading.alarm else 0,
    )


def _row(line: bytes, where: str) -> Row:
    if len(line) > LINE_BYTES_MAX:
        raise LayoutError(f"{where}: a line of {len(line)} bytes, at most {LINE_BYTES_MAX} are ours")
    try:
        found = orjson.loads(line)
        row = Row(*map(found.__getitem__, COLUMNS))
        named = all(pattern.fullmatch(text) for pattern, text in zip(_NAMES, row[:3], strict=True))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LayoutError(f"{where}: not a JSON object with {', '.join(COLUMNS)}") from None
    counted = all(type(getattr(row, name)) is int and getattr(row, name) >= 0 for name in _INTEGERS)
    if not named or not counted or not all(type(getattr(row, name)) in (int, float) for name in _NUMBERS):
        raise LayoutError(f"{where}: a column has a value that cannot be")
    return row
