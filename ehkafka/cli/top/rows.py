"""What is shown of a state, as rows and lines of text. Pure; escapes and cuts what came from the wire."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.checks import printable
from ehkafka.cli.top.measures import NONE, number, partition_name, span
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.cli.top.measures import Rates

# Every busy partition has an oldest record; one that is younger, and on its way, holds nothing up.
YOUNG_S: Final = 2.0
# A leader that answers tells more often than that where the log ends.
NO_ANSWER_S: Final = 8.0
ON_THEIR_WAY: Final = ("running", "queued")
ROWS_MAX: Final = 300
CELL_CHARACTERS_MAX: Final = 60
LINE_CHARACTERS_MAX: Final = 400
# They stand below a key's facts, on half of a terminal.
STACK_LINES_MAX: Final = 8

KEY_COLUMNS: Final = ("", "KEY", "RECORD", "STATE", "AGE", "ATTEMPTS", "RECORDS", "ERROR")
PARTITION_COLUMNS: Final = (
    *("PARTITION", "HANDLED/S", "LAG", "BACKLOG", "PARKED", "OLDEST", "COMMITTED", "STATE"),
)
ERROR_COLUMNS: Final = ("COUNT", "KIND", "LAST", "SENTENCE")
LETTER_COLUMNS: Final = ("LETTER", "KEY", "ERROR", "CAME FROM", "VALUE")
EVENT_COLUMNS: Final = ("TIME", "LEVEL", "WHAT")
HANDLER_COLUMNS: Final = ("HANDLER", "STATE", "TOPICS", "WORKERS")
MEMBER_COLUMNS: Final = ("MEMBER", "STATE", "PROCESS", "PARTITIONS", "LAG", "HANDLED", "RESTARTS", "LAST END")
# Columns whose digits stand below each other.
NUMBERS: Final = frozenset(
    {"AGE", "ATTEMPTS", "BACKLOG", "COMMITTED", "COUNT", "HANDLED", "HANDLED/S", "LAG", "OLDEST", "PARKED"}
    | {"PARTITIONS", "PROCESS", "RECORDS", "RESTARTS", "WORKERS"}
)


class Row(NamedTuple):
    """A row: what it is about, by which it keeps its place and the cursor, and its cells."""

    name: str
    cells: tuple[str, ...]
    # It is drawn as what needs somebody.
    is_urgent: bool = False


def cut(text: object, characters_max: int = CELL_CHARACTERS_MAX) -> str:
    """Return a text as one line of visible characters, cut."""
    plain = str(text)
    if len(plain) > characters_max:
        plain = plain[: characters_max - 1] + "…"
    return printable(plain)


def is_stuck(key: dict[str, Any]) -> bool:
    """Tell whether a key holds a commit and is not just being handled."""
    return bool(key["is_blocking"]) and (key["status"] not in ON_THEIR_WAY or key["age_s"] >= YOUNG_S)


def keys(state: dict[str, Any]) -> list[Row]:
    """Return those that hold a commit up, then others that wait, then those on their way."""
    found = sorted(
        state["keys"], key=lambda one: (not is_stuck(one), one["status"] in ON_THEIR_WAY, -one["age_s"])
    )
    return [
        Row(
            one["name"],
            (
                "●" if is_stuck(one) else "",
                cut(one["key"], 40),
                cut(one["name"]),
                _state_of(one),
                span(one["age_s"]),
                number(one["attempts"]),
                number(one["records"]),
                cut(one["last_error"], 80),
            ),
            is_stuck(one),
        )
        for one in found[:ROWS_MAX]
    ]


def _state_of(key: dict[str, Any]) -> str:
    # A key that is held waits for what its error says; that stands elsewhere.
    return cut(key["status"] if key["state"] == key["last_error"] else key["state"], 40)


def partitions(state: dict[str, Any], rates: Rates, order: str = "name") -> list[Row]:
    """Return them by name, or with the largest `lag` or `oldest` first."""
    handlers = state["snapshot"].get("handlers", ())
    stopped = {topic for one in handlers if one.get("is_stopped") for topic in one["topics"]}
    found = list(state["snapshot"]["partitions"])
    if order == "lag":
        found.sort(key=lambda one: -(one["lag_records"] if one["lag_records"] is not None else -1))
    elif order == "oldest":
        found.sort(key=lambda one: -(one["oldest"] or {}).get("age_s", -1.0))
    rows = []
    for one in found:
        name = partition_name(one["partition"])
        word = _word(one, is_stopped=one["partition"]["topic"] in stopped)
        cells = (
            cut(name),
            number(rates.partition(name)),
            number(one["lag_records"]),
            number(one["backlog_records"]),
            number(one["parked_records"]),
            span(one["oldest"]["age_s"]) if one["oldest"] else NONE,
            number(one["committed"]),
            word,
        )
        rows.append(Row(name, cells, word != "receives"))
    return rows


def _word(one: dict[str, Any], *, is_stopped: bool) -> str:
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


def errors(state: dict[str, Any]) -> list[Row]:
    """Return them by kind, the newest first."""
    return [
        Row(
            error_name(one),
            (
                number(one["count"]),
                cut(one["kind"]),
                moment(one["last_at_s"]),
                cut(of_member(one) + one["sentence"], 200),
            ),
        )
        for one in state.get("errors", ())[:ROWS_MAX]
    ]


def error_name(one: dict[str, Any]) -> str:
    """Return what tells a kind of errors from others: each member has its own."""
    return f"{one.get('member')} {one['kind']}"


def of_member(one: dict[str, Any]) -> str:
    """Return whose entry it is, where members have some: in front of its sentence."""
    member = one.get("member")
    return "" if member is None else f"Member {cut(member, 10)}: "


def letters(found: Sequence[dict[str, Any]]) -> list[Row]:
    """Return letters as they were read."""
    return [
        Row(
            f"{one['partition']}@{one['offset']}",
            (
                f"{one['partition']}@{one['offset']}",
                cut(one["key"]),
                cut(one.get("error") or NONE, 80),
                cut(one.get("origin") or NONE),
                cut(one.get("value") or "(no value)", 120),
            ),
        )
        for one in found[:ROWS_MAX]
    ]


def events(state: dict[str, Any]) -> list[Row]:
    """Return events and rebalances, the newest first."""
    rebalances = [one | {"level": "rebalance"} for one in state.get("rebalances", ())]
    found = sorted([*state.get("events", ()), *rebalances], key=lambda one: -one["at_s"])
    return [
        Row(
            str(n),
            (moment(one["at_s"]), cut(one["level"], 12), cut(of_member(one) + one["sentence"], 300)),
            one["level"] == "warning",
        )
        for n, one in enumerate(found[:ROWS_MAX])
    ]


def members(state: dict[str, Any]) -> list[Row]:
    """Return the supervisor's members, then the addresses of members elsewhere."""
    rows = []
    for one in state["snapshot"].get("members", ()):
        its = one["snapshot"] or {}
        is_well = one["is_live"] and one["is_ready"]
        cells = (
            str(one["number"]),
            cut(one["state"]) + (", ready" if one["is_ready"] else ", not ready"),
            str(one["pid"] or NONE),
            number(len(its["partitions"])) if its else NONE,
            number(_lag_of(its)),
            number(its.get("finished_records")),
            number(one["restarts"]),
            cut(one["last_end"] or NONE, 120),
        )
        rows.append(Row(str(one["number"]), cells, not is_well))
    elsewhere = [f"{one['name']}: {one['url']}" for one in state.get("members_elsewhere", ())]
    return rows + [Row(text, (cut(text, 120), "elsewhere", *("",) * 6)) for text in elsewhere[:ROWS_MAX]]


def _lag_of(snapshot: dict[str, Any]) -> int | None:
    """Return the sum over partitions; None where that of one is unknown."""
    lags = [one["lag_records"] for one in snapshot.get("partitions", ())]
    return None if not snapshot or None in lags else sum(lags)


def handlers(state: dict[str, Any]) -> list[Row]:
    """Return the handlers."""
    return [
        Row(
            one["handler"],
            (
                cut(one["handler"]),
                {True: "stopped", False: "started"}.get(one.get("is_stopped"), ""),
                cut(", ".join(one["topics"]), 120),
                number(one.get("workers")) + (" auto" if one.get("workers_auto") else ""),
            ),
            bool(one.get("is_stopped")),
        )
        for one in state["snapshot"].get("handlers", ())
    ]


def detail(key: dict[str, Any], overdue: Iterable[dict[str, Any]] = ()) -> str:
    """Return what is worth knowing of one key, in lines; `overdue` are the calls past their deadline."""
    line = f"{counted(key['attempts'], 'attempt')}, {counted(key['records'], 'record')} of the key in line"
    its_member = "" if key.get("member") is None else f"   member {cut(key['member'], 10)}"
    lines = [
        f"Key {cut(key['key'], 200)}   {cut(key['name'], 200)}   handler {cut(key['handler'])}{its_member}",
        f"{_state_of(key)}, received {span(key['age_s'])} ago, {line}",
    ]
    for call in overdue:
        if f"{partition_name(call['partition'])}@{call['offset']}" == key["name"]:
            ran, most = span(call["running_s"]), span(call["deadline_s"])
            lines.append(f"Running for {ran} on {cut(call['worker'])}, its deadline is {most}")
    if key["last_error"]:
        lines.append(f"Error: {cut(key['last_error'], LINE_CHARACTERS_MAX)}")
    if key.get("value") is not None:
        lines.append(f"Value: {cut(key['value'], LINE_CHARACTERS_MAX)}")
    return "\n".join([*lines, *stack_lines(key.get("stack") or "")])


def stack_lines(stack: str) -> Iterable[str]:
    """Return a stack's lines, as many as fit, without Python's marks below them.

    An error's are the last ones; of a call that runs the first two, too, which are the user's.
    """
    lines = [line for line in stack.splitlines() if line.strip(" ~^")]
    if len(lines) > STACK_LINES_MAX:
        first = lines[:2] if lines[0].startswith("  File ") else []
        lines = [*first, *lines[len(first) - STACK_LINES_MAX :]]
    return [cut(line, LINE_CHARACTERS_MAX) for line in lines]


def moment(at_s: float) -> str:
    """Return a time of the day, here."""
    return time.strftime("%H:%M:%S", time.localtime(at_s))
