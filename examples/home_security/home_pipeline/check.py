"""Compares what the page's server answers with the simulator's ledger, number by number.

Pure but for `ask`, which gets one answer of the server. Knows nothing of blobs or engines.
"""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple

from home_pipeline.readings import SPOILT

if TYPE_CHECKING:
    from home_pipeline.ledger import Ledger

MINUTE_S = 60
ASK_S = 10.0


def ask(address: str, path: str) -> Any:
    """Return an answer of the page's server, on this machine. Raises `OSError`."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=ASK_S) as answer:
            return json.load(answer)
    except HTTPException as error:  # it ended while it answered
        raise ConnectionError(str(error)) from None


class Compared(NamedTuple):
    """How many numbers of the page were looked at, and in words each that is not the ledger's."""

    readings: int
    sensors: int
    differences: list[str]


def compare(ledger: Ledger, address: str, *, homes: int = 20) -> Compared:
    """Compare readings, spoilt ones and alarms by kind, and some homes by sensor; open minutes aside."""
    shown = ask(address, "/api/overview")
    end_s = (ledger.closing_us or 0) // 1_000_000 // MINUTE_S * MINUTE_S
    begin_s = _first_minute(shown)
    sent = ledger.between(begin_s, end_s)
    seen = _between(shown, begin_s, end_s)
    found = [
        f"{name}: {sent[name]:,} were sent, the page has {seen[name]:,}"
        for name in sorted({*sent, *seen})
        if sent[name] != seen[name]
    ]
    sensors = 0
    begin_s = max(begin_s, _next_minute(ledger.detailed_from_us // 1_000_000))
    for home, readings in [*ledger.homes.items()][:homes]:
        said: dict[str, list[float]] = {}
        for one in readings:
            if begin_s <= one.at_us // 1_000_000 < end_s:
                said.setdefault(one.kind, []).append(one.value)
        answer = ask(address, f"/api/home/{home}")
        for kind, values in said.items():
            sensors += 1
            wanted = (len(values), min(values), max(values))
            there = _of_home(answer, kind, begin_s, end_s)
            if there != wanted:
                found.append(f"{home}, {kind}: the page has {there}, the ledger {wanted}")
    return Compared(sent.total() - sent["alarms"] - sent[SPOILT], sensors, found)


def _first_minute(shown: dict[str, Any]) -> int:
    """Return the first minute of which nothing was deleted."""
    begins = shown["windows"]["begin_s"]
    if not begins:
        return 0
    kept_from_s = shown["as_of_s"] - shown["keep_s"]
    oldest_s = int(begins[0]) // MINUTE_S * MINUTE_S
    if oldest_s > kept_from_s:
        return oldest_s
    return _next_minute(int(kept_from_s))


def _next_minute(at_s: int) -> int:
    return -(-at_s // MINUTE_S) * MINUTE_S


def _between(shown: dict[str, Any], begin_s: int, end_s: int) -> Counter[str]:
    """Return how many readings of each kind the page has, and `alarms`."""
    windows = shown["windows"]
    places = [n for n, at_s in enumerate(windows["begin_s"]) if begin_s <= at_s < end_s]
    seen = Counter({kind["kind"]: sum(kind["readings"][n] for n in places) for kind in shown["kinds"]})
    seen["alarms"] = sum(windows["alarms"][n] for n in places)
    seen[SPOILT] = sum(shown["spoilt"]["per_window"][n] for n in places)
    return seen


def _of_home(home: dict[str, Any], kind: str, begin_s: int, end_s: int) -> tuple[Any, Any, Any]:
    places = [n for n, at_s in enumerate(home["minutes"]) if begin_s <= at_s < end_s]
    found = next((sensor for sensor in home["sensors"] if sensor["kind"] == kind), None)
    if found is None:
        return 0, None, None
    lows = [found["low"][place] for place in places if found["readings"][place]]
    highs = [found["high"][place] for place in places if found["readings"][place]]
    count = sum(found["readings"][place] for place in places)
    return count, min(lows, default=None), max(highs, default=None)
