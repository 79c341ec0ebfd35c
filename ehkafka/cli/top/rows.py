"""A state as rows and lines of text: panels, keys, letters. Pure; escapes and cuts what is of the wire."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.http.measures import NONE, number, partition_name, span
from ehkafka.wording import counted
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Every busy partition has an oldest record; one that is younger, and on its way, holds nothing up.
YOUNG_S: Final = 2.0
ON_THEIR_WAY: Final = ("running", "queued")
ROWS_MAX: Final = 300
CELL_CHARACTERS_MAX: Final = 60
SENTENCE_CHARACTERS_MAX: Final = 300
LINE_CHARACTERS_MAX: Final = 400
# They stand below a key's facts, on half of a terminal.
STACK_LINES_MAX: Final = 8

KEY_COLUMNS: Final = {
    "": "text",
    "Key": "text",
    "Record": "text",
    "State": "text",
    "Age": "span",
    "Attempts": "number",
    "Records": "number",
    "Error": "text",
}
LETTER_COLUMNS: Final = dict.fromkeys(("Letter", "Key", "Error", "Came from", "Value"), "text")


class Row(NamedTuple):
    """A row: what it is about, by which it keeps its place and the cursor, and its cells."""

    name: str
    cells: tuple[str, ...]
    # It is drawn as what a person should look at.
    is_urgent: bool = False


def cut(text: object, characters_max: int = CELL_CHARACTERS_MAX) -> str:
    """Return a text as one line of visible characters, cut."""
    plain = str(text)
    if len(plain) > characters_max:
        plain = plain[: characters_max - 1] + "…"
    return printable(plain)


def text_of(kind: str, value: Any, characters_max: int = SENTENCE_CHARACTERS_MAX) -> str:
    """Return a cell, tile or fact of that kind."""
    if value is None:
        return NONE
    if kind == "text":
        return cut(value, characters_max)
    return {"moment": moment, "span": span}.get(kind, number)(value)


def panel_rows(panel: Mapping[str, Any], order: str | None = None) -> list[Row]:
    """Return a panel's rows as they come, or those with the largest in a column first."""
    names, kinds = zip(*((one["name"], one["kind"]) for one in panel["columns"]), strict=True)
    found = panel["rows"]
    if order is not None:
        at = names.index(order)
        found = sorted(
            found, key=lambda one: -1 if one["cells"][at] is None else one["cells"][at], reverse=True
        )
    return [
        Row(one["name"], tuple(map(text_of, kinds, one["cells"])), bool(one["is_urgent"])) for one in found
    ]


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
    # The error of a key on hold says what it waits for; it is shown apart.
    return cut(key["status"] if key["state"] == key["last_error"] else key["state"], 40)


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


def detail(key: dict[str, Any], overdue: Iterable[dict[str, Any]] = ()) -> str:
    """Return what is worth knowing of one key, in lines; `overdue` are the calls past their deadline."""
    line = f"{counted(key['attempts'], 'attempt')}, {counted(key['records'], 'record')} of the key queued"
    its_member = "" if key.get("member") is None else f"   member {cut(key['member'], 10)}"
    lines = [
        f"Key {cut(key['key'], 200)}   {cut(key['name'], 200)}   handler {cut(key['handler'])}{its_member}",
        f"{_state_of(key)}, received {span(key['age_s'])} ago, {line}",
    ]
    for call in overdue:
        if f"{partition_name(call['partition'])}@{call['offset']}" == key["name"]:
            ran, most = span(call["running_s"]), span(call["deadline_s"])
            lines.append(f"Running for {ran} on {cut(call['worker'])}, the call's deadline is {most}")
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
        f"Member {cut(one, 10)} does not answer; its rows are from its last answer."
        for one in state.get("silent_members", ())
    ]


def letters_note(topic: str, body: dict[str, Any], text: str) -> str:
    """Return what is said above a topic's letters."""
    if "letters" not in body:
        return cut(text, LINE_CHARACTERS_MAX)
    newest = "the newest " if body.get("more") else ""
    return f"{cut(topic, 256)}: {newest}{counted(len(body['letters']), 'letter')}"
