"""The panels of the page and of `ehkafka top`: each is described here, once, and both write it as a table.

A panel has columns, each of a kind, and rows; a cell is a value: `text`, `number`, `rate` a second, `span` in
seconds, `moment` in seconds since the epoch, or None. The page and the terminal put it into words, cut it and
escape it. Of keys and dead letters both have views of their own. A new panel is its rows and an entry of
`PANELS`. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ehkafka.http.measures import NONE, number, partition_name, span, until_caught_up_s
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ehkafka.http.measures import Rates

    Row = dict[str, Any]
    State = Mapping[str, Any]

# A leader that answers tells more often than that where the log ends.
NO_ANSWER_S: Final = 8.0
ON_THEIR_WAY: Final = ("running", "queued")
ROWS_MAX: Final = 300
MEBIBYTE: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Panel:
    """A table: its name, its heading, and the kind of each column."""

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Callable[[State, Rates], Iterator[Row]]
    # What stands there without rows; without a text the page then hides the panel.
    empty: str = ""
    # What an action on a row is an action on, and which there are.
    target: str = ""
    actions: tuple[str, ...] = ()
    # Columns by which the terminal can order it, the largest first.
    orders: tuple[str, ...] = field(default=())

    def shown(self, state: State, rates: Rates) -> dict[str, Any]:
        """Return it for JSON."""
        columns = [{"name": name, "kind": kind} for name, kind in self.columns.items()]
        found = {
            name: getattr(self, name) for name in ("name", "title", "empty", "target", "actions", "orders")
        }
        return found | {"columns": columns, "rows": list(self.rows(state, rates))}


def _row(name: str, *cells: object, is_urgent: bool = False, **more: object) -> Row:
    """Return a row. `do`: its actions, each with why it is refused, or ""; `stack`: shown on demand."""
    return {"name": name, "cells": cells, "is_urgent": is_urgent, **more}


def _partitions(state: State, rates: Rates) -> Iterator[Row]:
    handlers = state["snapshot"].get("handlers", ())
    stopped = {topic for one in handlers if one.get("is_stopped") for topic in one["topics"]}
    for one in state["snapshot"]["partitions"]:
        name, is_stopped = partition_name(one["partition"]), one["partition"]["topic"] in stopped
        word = _word(one, is_stopped=is_stopped)
        why_not = "Its handler is stopped: start that." if is_stopped else ""
        yield _row(
            name,
            name,
            rates.partition(name),
            one["lag_records"],
            one["backlog_records"],
            one["parked_records"],
            one["oldest"]["age_s"] if one["oldest"] else None,
            one["committed"],
            word,
            is_urgent=word != "receives",
            do={"resume": why_not} if one["is_paused_by_hand"] else {"pause": ""},
        )


def _word(one: Mapping[str, Any], *, is_stopped: bool) -> str:
    if is_stopped:
        return "handler stopped"
    if one["is_paused_by_hand"]:
        return "paused by hand"
    if one.get("unreadable"):
        return f"cannot be read from {one['unreadable']['offset']}"
    oldest = one["oldest"] or {}
    if oldest.get("is_stuck") and oldest["status"] == "running":
        return "held up by a running call"
    if one["paused"]:
        return "paused, is full"
    if oldest and (oldest.get("is_stuck") or oldest["status"] not in ON_THEIR_WAY):
        return "its commit is held up"
    if (one["log_age_s"] or 0.0) > NO_ANSWER_S:
        return f"no answer for {span(one['log_age_s'])}"
    return f"stands still for {span(one['standstill_s'])}" if one["standstill_s"] > 0 else "receives"


def _errors(state: State, _rates: Rates) -> Iterator[Row]:
    for one in state.get("errors", ())[:ROWS_MAX]:
        cells = (one["count"], one["kind"], one["last_at_s"], _of_member(one) + one["sentence"])
        yield _row(f"{one.get('member')} {one['kind']}", *cells, stack=one.get("stack") or "")


def _events(state: State, _rates: Rates) -> Iterator[Row]:
    for n, one in enumerate(state.get("events", ())[:ROWS_MAX]):
        sentence = _of_member(one) + one["sentence"]
        yield _row(str(n), one["at_s"], one["level"], sentence, is_urgent=one["level"] == "warning")


def _of_member(one: Mapping[str, object]) -> str:
    """Return whose entry it is, where members have some: in front of its sentence."""
    member = one.get("member")
    return "" if member is None else f"Member {member}: "


def _members(state: State, rates: Rates) -> Iterator[Row]:
    """Yield the supervisor's members."""
    for one in state["snapshot"].get("members", ()):
        partitions = one["snapshot"]["partitions"] if one["snapshot"] else ()
        words = [
            one["state"],
            "ready" if one["is_ready"] else "not ready",
            *(["not live"] * (not one["is_live"])),
        ]
        yield _row(
            str(one["number"]),
            str(one["number"]),
            ", ".join(words),
            one["pid"],
            len(partitions) if one["snapshot"] else None,
            _sum(its["lag_records"] for its in partitions),
            _sum(rates.partition(partition_name(its["partition"])) for its in partitions),
            one["restarts"],
            one["silence_s"],
            one["last_end"] or None,
            is_urgent=not (one["is_live"] and one["is_ready"]),
        )


def _sum(over_partitions: Iterable[float | None]) -> float | None:
    """Return the sum; None without any, and where that of one is unknown."""
    found = list(over_partitions)
    return sum(found) if found and None not in found else None  # type: ignore[arg-type]


def _handlers(state: State, _rates: Rates) -> Iterator[Row]:
    for one in state["snapshot"].get("handlers", ()):
        auto = one.get("workers_auto")
        limits = f" (auto, {auto[0]} to {auto[1]})" if auto else ""
        is_stopped = bool(one.get("is_stopped"))
        yield _row(
            one["handler"],
            one["handler"],
            "stopped" if is_stopped else "started",
            ", ".join(one["topics"]),
            None if one.get("workers") is None else f"{number(one['workers'])}{limits}",
            is_urgent=is_stopped,
            do={"start" if is_stopped else "stop": ""},
        )


def _process(state: State, _rates: Rates) -> Iterator[Row]:
    found, snapshot = state.get("process") or {}, state["snapshot"]
    memory = found.get("rss_bytes")
    yield _row("memory", "Memory", f"{number(memory / MEBIBYTE)} MiB" if memory else NONE)
    yield _row("threads", "Threads", number(found.get("threads")))
    yield _row("uptime", "Up for", span(found.get("uptime_s", snapshot["uptime_s"])))
    versions = f"ehkafka {found.get('version', NONE)}, Python {found.get('python', NONE)}"
    yield _row("version", "Version", versions)
    yield _row("process", "Process", f"{found.get('pid', NONE)} on {found.get('host', NONE)}")
    for name in ("finished", "skipped", "dead_lettered"):
        yield _row(name, name.capitalize().replace("_", "-"), number(snapshot[f"{name}_records"]))


PANELS: Final = (
    Panel(
        "partitions",
        "Partitions",
        {
            "Partition": "text",
            "Handled/s": "rate",
            "Lag": "number",
            "Backlog": "number",
            "Waiting": "number",
            "Oldest unfinished": "span",
            "Committed": "number",
            "State": "text",
        },
        _partitions,
        empty="None is ours.",
        target="partition",
        actions=("pause", "resume"),
        orders=("Lag", "Oldest unfinished"),
    ),
    Panel(
        "errors",
        "Errors, by kind",
        {"Count": "number", "Kind": "text", "Last": "moment", "Sentence": "text"},
        _errors,
        empty="None since the start.",
    ),
    Panel(
        "events",
        "Events",
        {"Time": "moment", "Level": "text", "What": "text"},
        _events,
        empty="None yet.",
    ),
    Panel(
        "members",
        "Members",
        {
            "Member": "text",
            "State": "text",
            "Process": "text",
            "Partitions": "number",
            "Lag": "number",
            "Handled/s": "rate",
            "Restarts": "number",
            "Silent for": "span",
            "Last end": "text",
        },
        _members,
    ),
    Panel(
        "handlers",
        "Handlers",
        {"Handler": "text", "State": "text", "Topics": "text", "Workers": "text"},
        _handlers,
        target="handler",
        actions=("stop", "start"),
    ),
    Panel("process", "This process", {"": "text", "Now": "text"}, _process),
)


def panels(state: State, rates: Rates) -> list[dict[str, Any]]:
    """Return all panels for JSON."""
    return [panel.shown(state, rates) for panel in PANELS]


def tiles(state: State, rates: Rates) -> list[dict[str, Any]]:
    """Return the numbers at the top: each with its heading, its kind and a note."""
    snapshot, history = state["snapshot"], state.get("history") or {}
    handled = _or_last(rates.handled_per_s, history.get("handled_per_s"))
    received = _or_last(rates.received_per_s, history.get("received_per_s"))
    waiting = [one for one in state["keys"] if one["status"] not in ON_THEIR_WAY]
    busy = [one for one in snapshot["partitions"] if one["oldest"]]
    oldest = max(busy, key=lambda one: one["oldest"]["age_s"], default=None)
    hanging = [
        one for one in busy if one["oldest"].get("is_stuck") and one["oldest"]["status"] in ON_THEIR_WAY
    ]
    blocking = sum(1 for one in waiting if one["is_blocking"]) + len(hanging)
    parked, left_out = snapshot["parked_records"], state.get("keys_left_out", 0)
    where = (
        f"{partition_name(oldest['partition'])}, {oldest['oldest']['status']}" if oldest else "all is handled"
    )
    held = f"{counted(blocking, 'commit')} held up" if blocking else "none holds a commit"
    unlisted = f", {number(left_out)} not listed" if left_out else ""
    behind = f"and {number(parked)} waiting" if parked else "received, not handled"
    found = (
        ("rate", "Handled a second", "rate", handled, f"received {number(received)} a second"),
        ("lag", "Lag", "number", snapshot["lag_records"], _lag_note(snapshot, history, handled)),
        ("backlog", "Backlog", "number", snapshot["backlog_records"], behind),
        ("oldest", "Oldest unfinished", "span", oldest and oldest["oldest"]["age_s"], where),
        ("waiting", "Keys waiting", "number", len(waiting) + left_out, held + unlisted),
    )
    names = ("name", "heading", "kind", "value", "note")
    return [
        dict(zip(names, one, strict=True), is_urgent=one[0] == "waiting" and blocking > 0) for one in found
    ]


def _or_last(rate: float | None, history: list[float | None] | None) -> float | None:
    # Before there are two states to take a difference of.
    return history[-1] if rate is None and history else rate


def _lag_note(snapshot: Mapping[str, Any], history: dict[str, Any], handled_per_s: float | None) -> str:
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
