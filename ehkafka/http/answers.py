"""What an app answers at `/state` and `/actions`: over HTTP, and over a member's socket. Needs no extra.

A supervisor's state is that of its members, joined: each entry has the number of its member. Any thread, but
never an event loop's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.errors import ActionRefusedError, EhkafkaError
from ehkafka.http.journal import EVENTS_MAX, KINDS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ehkafka.http.journal import Journal
    from ehkafka.http.served import Served
    from ehkafka.run.steer.keys import KeyState

    Entry = dict[str, Any]

# HTTP's status, and what becomes JSON.
Answer = tuple[int, dict[str, Any]]
OK: Final = 200
CONFLICT: Final = 409
STATUS_OF: Final = {
    "invalid": 400,
    "unknown": 404,
    "elsewhere": 404,
    "failed": 502,
    "busy": 503,
    "stopped": 503,
}


class States(NamedTuple):
    """The last states of a member: of the process before this one, and of this one; empty without any."""

    member: int
    before: Mapping[str, object]
    now: Mapping[str, object]
    # Its process has not answered, so this is what it answered last.
    is_silent: bool


def brief_state_of(served: Served) -> dict[str, Any]:
    """Return the state without its lists."""
    return {
        "snapshot": served.snapshot().as_dict(),
        "health": served.health().as_dict(),
        "not_live": list(served.current_run.not_live()),
    }


def state_of(served: Served, journal: Journal, keys: Iterable[KeyState]) -> dict[str, Any]:
    """Return the state: also the keys that wait, each with its last stack, and what happened lately."""
    stacks = journal.stacks()
    return {
        **brief_state_of(served),
        "keys": [one.as_dict() | {"stack": stacks.get(one.name, "")} for one in keys],
        "events": journal.events(),
        "errors": journal.errors(),
    }


def answered(function: Callable[[], dict[str, Any]]) -> Answer:
    """Return what a function returns, or why it did nothing."""
    try:
        return OK, function()
    except ActionRefusedError as error:
        reason, names = error.reason, list(error.names)
        return STATUS_OF.get(reason, CONFLICT), {"reason": reason, "text": str(error), "names": names}
    except EhkafkaError as error:
        return STATUS_OF["failed"], {"reason": "failed", "text": str(error), "names": []}


def joined(own: Mapping[str, object], members: Sequence[States]) -> dict[str, Any]:
    """Return all in one, the newest first, no more of it than one process has. Silent members are named.

    Without members it is what this process has, and no entry names one.
    """
    if not members:
        return {**own, "silent_members": []}
    keys = _marked([(one.member, one.now) for one in members], "keys")
    parts: list[tuple[int | None, Mapping[str, Any]]] = [(None, own)]
    parts += [(one.member, state) for one in members for state in (one.before, one.now)]
    return {
        **own,
        # As `Keys.waiting` has them.
        "keys": sorted(keys, key=lambda one: (not one["is_blocking"], -one["age_s"])),
        "events": _newest(_marked(parts, "events"), "at_s", EVENTS_MAX),
        "errors": _newest(_counted(_marked(parts, "errors")), "last_at_s", KINDS_MAX),
        "silent_members": [one.member for one in members if one.is_silent],
    }


def _marked(parts: Iterable[tuple[int | None, Mapping[str, Any]]], what: str) -> list[Entry]:
    return [{**entry, "member": member} for member, state in parts for entry in state.get(what, ())]


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
