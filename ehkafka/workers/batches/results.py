"""The results of the records of a batch, key by key. Pure.

A record that failed takes the later ones of its key with it, whatever its handler reported of them: they are
handled again, behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.lanes.routing import Router
from ehkafka.records.batch import Failed, Skipped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name
    from ehkafka.records.batch import Result


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a batch's records, where they do not all end well."""

    # Each record that failed first of its key, its error, and the later ones of that key.
    failed: list[tuple[Entry, BaseException, list[Entry]]]
    # Those that the handler does not want, and why.
    skipped: list[tuple[Entry, str]]
    # The places of those that are handled again, and of all whose outputs go nowhere: skipped ones, too.
    again: frozenset[int]
    unsent: frozenset[int]

    @classmethod
    def of(cls, entries: Sequence[Entry], results: Mapping[int, Result]) -> Results:
        """Sort what was reported of records, by their places."""
        failed: list[tuple[Entry, BaseException, list[Entry]]] = []
        skipped: list[tuple[Entry, str]] = []
        again: set[int] = set()
        unsent: set[int] = set()
        behind: dict[Name, list[Entry]] = {}
        for place, entry in enumerate(entries):
            result = results.get(place)
            if result is None and not behind:
                continue
            name = Router.name_of(entry)
            if (later := behind.get(name)) is not None:
                later.append(entry)
                again.add(place)
            elif isinstance(result, Failed):
                behind[name] = later = []
                failed.append((entry, result.error, later))
                again.add(place)
            elif isinstance(result, Skipped):
                skipped.append((entry, result.reason))
                unsent.add(place)
        return cls(failed, skipped, frozenset(again), frozenset(again | unsent))
