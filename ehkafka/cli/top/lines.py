"""What stands beside the tables: the first line, the tiles, the process, the note on letters. Pure."""

from __future__ import annotations

import http
import math
from typing import TYPE_CHECKING, Any

from ehkafka.cli.top.measures import NONE, number, span, until_caught_up_s
from ehkafka.cli.top.rows import LINE_CHARACTERS_MAX, ON_THEIR_WAY, cut, moment
from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka.cli.top.measures import Rates


def tiles(state: dict[str, Any], rates: Rates) -> list[tuple[str, str, str]]:
    """Return the numbers that stand above all: heading, number, note."""
    snapshot, history = state["snapshot"], state.get("history") or {}
    handled = _or_last(rates.handled_per_s, history.get("handled_per_s"))
    received = _or_last(rates.received_per_s, history.get("received_per_s"))
    waiting = [one for one in state["keys"] if one["status"] not in ON_THEIR_WAY]
    oldest_ones = [one["oldest"] for one in snapshot["partitions"] if one["oldest"]]
    oldest = max((one["age_s"] for one in oldest_ones), default=None)
    hanging = [one for one in oldest_ones if one.get("is_stuck") and one["status"] in ON_THEIR_WAY]
    blocking = sum(1 for one in waiting if one["is_blocking"]) + len(hanging)
    parked = snapshot["parked_records"]
    left_out = state.get("keys_left_out", 0)
    unlisted = f", {number(left_out)} not listed" if left_out else ""
    return [
        ("Handled/s", number(handled), f"received {number(received)}/s"),
        ("Lag", number(snapshot["lag_records"]), _lag_note(snapshot, history, handled)),
        (
            "Backlog",
            number(snapshot["backlog_records"]),
            f"and {number(parked)} parked" if parked else "not handled yet",
        ),
        ("Oldest", span(oldest), "since received"),
        (
            "Keys waiting",
            number(len(waiting) + left_out),
            (f"{blocking} hold{'s' if blocking == 1 else ''} a commit" if blocking else "none holds a commit")
            + unlisted,
        ),
    ]


def _or_last(rate: float | None, history: list[float | None] | None) -> float | None:
    # Before there are two states to take a difference of.
    return history[-1] if rate is None and history else rate


def _lag_note(snapshot: dict[str, Any], history: dict[str, Any], handled_per_s: float | None) -> str:
    if snapshot["lag_records"] is None:
        if snapshot["is_cut_off"]:
            return "unknown: no broker answers"
        old = [one for one in snapshot["partitions"] if one["lag_records"] is None and one["log_age_s"]]
        silent = f"unknown: {old[0]['leader'] or 'a broker'} does not answer" if old else ""
        return "not known yet" if snapshot["is_throttled"] else silent or "not known yet"
    left_s = until_caught_up_s(snapshot["lag_records"], history, handled_per_s)
    if left_s is None:
        return ""
    if left_s == 0:
        return "keeps up" if snapshot["lag_records"] else "caught up"
    return f"caught up in about {span(left_s)}" if math.isfinite(left_s) else "not catching up"


def head(state: dict[str, Any]) -> str:
    """Return the first line: which app, how it is, and as of when."""
    snapshot, health = state["snapshot"], state["health"]
    problems = health.get("problems", len(health["reasons"]))
    how = "healthy" if health["ok"] else f"{problems} problem{'' if problems == 1 else 's'}"
    at = f"{cut(snapshot['group'])} at {cut(snapshot['endpoint'])}"
    return f"{at} · {cut(snapshot['state'], 20)}, {how} · as of {moment(snapshot['taken_at_s'])}"


def silent(state: dict[str, Any]) -> list[str]:
    """Return a sentence for each member that does not answer its supervisor."""
    return [
        f"Member {cut(one, 10)} does not answer: what it has noted is as it answered last."
        for one in state.get("silent_members", ())
    ]


def process(state: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the process: names and values."""
    found, snapshot = state.get("process") or {}, state["snapshot"]
    memory = found.get("rss_bytes")
    return [
        ("Memory", f"{number(memory / 1_048_576)} MiB" if memory else NONE),
        ("Threads", number(found.get("threads"))),
        ("Up for", span(found.get("uptime_s", snapshot["uptime_s"]))),
        ("Version", f"ehkafka {cut(found.get('version', NONE))}, Python {cut(found.get('python', NONE))}"),
        ("Process", f"{found.get('pid', NONE)} on {cut(found.get('host', NONE))}"),
        ("Finished", number(snapshot["finished_records"])),
        ("Skipped", number(snapshot["skipped_records"])),
        ("Dead-lettered", number(snapshot["dead_lettered_records"])),
    ]


def letters_note(topic: str, status: int, body: dict[str, Any], text: str) -> str:
    """Return what is said above a topic's letters."""
    topic = cut(topic, 256)
    if status == http.HTTPStatus.NOT_IMPLEMENTED:
        return (
            "This server does not read letters. Commands that do:\n"
            f"  ehkafka dlq list {topic} --app MODULE:APP\n"
            f"  ehkafka dlq redrive {topic} --app MODULE:APP"
        )
    if "letters" not in body:
        return cut(text, LINE_CHARACTERS_MAX)
    newest = "the newest " if body.get("more") else ""
    return f"{topic}: {newest}{counted(len(body['letters']), 'letter')}"
