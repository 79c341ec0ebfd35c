"""What this process and its members have noted, as one: each entry with the number of its member. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.http.journal import EVENTS_MAX, KINDS_MAX, REBALANCES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Entry = dict[str, Any]


class Noted(NamedTuple):
    """A member's journals as `Journal.as_dict` has them: of a process before this one, and of this one."""

    member: int
    journals: tuple[Mapping[str, Any], ...]
    # Its process has not answered, so this is what it answered last.
    is_silent: bool


def joined(own: Mapping[str, Any], members: Sequence[Noted]) -> dict[str, Any]:
    """Return all in one, the newest first, no more of it than one process has. `silent`: who did not answer.

    Without members it is what this process has, and no entry names one.
    """
    if not members:
        return {**own, "silent": []}
    parts: list[tuple[int | None, Mapping[str, Any]]] = [(None, own)]
    parts += [(one.member, journal) for one in members for journal in one.journals]
    return {
        "events": _newest(_marked(parts, "events"), "at_s", EVENTS_MAX),
        "rebalances": _newest(_marked(parts, "rebalances"), "at_s", REBALANCES_MAX),
        "errors": _newest(_counted(_marked(parts, "errors")), "last_at_s", KINDS_MAX),
        "stacks": {name: stack for _, journal in parts for name, stack in journal["stacks"].items()},
        "silent": [one.member for one in members if one.is_silent],
    }


def _marked(parts: Iterable[tuple[int | None, Mapping[str, Any]]], what: str) -> list[Entry]:
    return [{**entry, "member": member} for member, journal in parts for entry in journal[what]]


def _counted(errors: Iterable[Entry]) -> list[Entry]:
    """Return each kind once for each member: what two of its processes had counts together."""
    found: dict[tuple[int | None, str], Entry] = {}
    for one in errors:
        known = found.get((one["member"], one["kind"]))
        if known is not None:
            newer, older = sorted((one, known), key=lambda entry: -entry["last_at_s"])
            count = known["count"] + one["count"]
            one = {**newer, "count": count, "stack": newer["stack"] or older["stack"]}  # noqa: PLW2901 - both
        found[one["member"], one["kind"]] = one
    return list(found.values())


def _newest(entries: list[Entry], at: str, most: int) -> list[Entry]:
    return sorted(entries, key=lambda one: -one[at])[:most]
