"""A group's lag as text for eyes, and as JSON for programs. Pure; keys are anybody's bytes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ehkafka.cli.columns import columns
from ehkafka.cli.offsets.text import note_of, view_as_dict
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.offsets import LagReport, PartitionView
    from ehkafka.offsets.blocking import Blocking

KEY_CHARACTERS_MAX = 40
_HEADERS = ("PARTITION", "LOG START", "LOG END", "COMMITTED", "LAG", "UNFINISHED", "BLOCKED BY", "")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def lag_as_text(report: LagReport, blocking: Mapping[int, Blocking], now_s: float) -> str:
    """Return where the group stands, what it waits for, and the sums."""
    rows = [
        (
            view.partition,
            view.log.start,
            view.log.end,
            view.committed,
            view.lag,
            _unfinished(view),
            record_text(blocking.get(view.partition), now_s),
            note_of(view),
        )
        for view in report.views
    ]
    bound = {(True, True): "about ", (True, False): "at least ", (False, True): "at most "}
    how = bound.get((report.is_at_least, report.is_at_most), "")
    return f"{columns(_HEADERS, rows)}\nunfinished {how}{report.total_unfinished}\ntotal lag {report.total}"


def lag_as_dict(report: LagReport, blocking: Mapping[int, Blocking], now_s: float) -> dict[str, Any]:
    """Return the same for JSON. A key that is no UTF-8 is `base64:…`; nothing of it is cut."""
    return {
        "has_commits": report.has_commits,
        "total_lag": report.total,
        "total_unfinished": report.total_unfinished,
        "total_unfinished_is_at_least": report.is_at_least,
        "total_unfinished_is_at_most": report.is_at_most,
        "partitions": [
            {**view_as_dict(view), "blocked_by": _blocking_as_dict(blocking.get(view.partition), now_s)}
            for view in report.views
        ],
    }


def _unfinished(view: PartitionView) -> object:
    unfinished = view.unfinished
    return f"≤ {unfinished}" if unfinished and not view.says_all else unfinished


def record_text(one: Blocking | None, now_s: float) -> str | None:
    """Return a record as `@1207 key c-7, 5 min old`."""
    if one is None:
        return None
    if one.problem:
        return f"@{one.offset} ({one.problem})"
    key = f"key {_cut(_readable(one.key))}" if one.key else "no key" if one.key is None else "an empty key"
    age_s = one.age_s(now_s)
    return f"@{one.offset} {key}" + ("" if age_s is None else f", {age_of(age_s)} old")


def _blocking_as_dict(one: Blocking | None, now_s: float) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "offset": one.offset,
        "key": None if one.key is None else _readable(one.key),
        "timestamp_ms": one.timestamp_ms,
        "age_s": one.age_s(now_s),
        "problem": one.problem or None,
    }


def _readable(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(key).decode()}"


def _cut(text: str) -> str:
    return text if len(text) <= KEY_CHARACTERS_MAX else f"{text[: KEY_CHARACTERS_MAX - 1]}…"


def age_of(age_s: float) -> str:
    """Return a time in the largest unit that it has two of: `90 s`, `5 min`, `3 h`, `12 d`."""
    for unit_s, name in _UNITS:
        if age_s >= 2 * unit_s:
            return f"{age_s / unit_s:.0f} {name}"
    return seconds(age_s)
