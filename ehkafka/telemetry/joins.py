"""How members' values become one for a supervisor: each field of a snapshot names its function. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, fields, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ehkafka.checkpoints.checkpoint import MirrorState
    from ehkafka.telemetry.snapshot import HandlerSnapshot, PartitionSnapshot


def joins(
    join: Callable[[list[Any]], object], default: Any, *, of_running: bool = False, counts_on: bool = False
) -> Any:
    """Return a field of which a supervisor shows what `join` makes of its members' known values.

    `of_running`: only of members that run. `counts_on`: what a process has counted counts on after its end.
    `default` is shown where no member knows a value.
    """
    how = {"join": join, "of_running": of_running, "counts_on": counts_on}
    return (
        field(default_factory=dict, metadata=how) if default is dict else field(default=default, metadata=how)
    )


def joined(parts: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of one or more snapshots of a kind by name, joined; what none knows is left out."""
    found = {}
    for one in fields(parts[0]) if parts else ():
        if (join := one.metadata.get("join")) is None:
            continue
        asked = [part for part in parts if not one.metadata["of_running"] or part.state == "running"]
        if known := [value for part in asked if (value := getattr(part, one.name)) is not None]:
            found[one.name] = join(known)
    return found


def in_line(parts: Iterable[Iterable[object]]) -> tuple[Any, ...]:
    """Return all of them."""
    return tuple(chain.from_iterable(parts))


def by_partition(parts: Iterable[Iterable[PartitionSnapshot]]) -> tuple[PartitionSnapshot, ...]:
    """Return all of them, by name."""
    return tuple(sorted(in_line(parts), key=lambda one: one.partition))


def by_handler(parts: Iterable[Iterable[HandlerSnapshot]]) -> tuple[HandlerSnapshot, ...]:
    """Return each handler once, with what all members that run it have."""
    found: dict[str, list[HandlerSnapshot]] = {}
    for one in in_line(parts):
        found.setdefault(one.handler, []).append(one)
    return tuple(replace(same[0], **joined(same)) for same in found.values())


def counts(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of each count."""
    found: Counter[str] = Counter()
    for one in parts:
        found.update(one)
    return dict(found)


def side_by_side(parts: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Return the sum of the first numbers, of the second ones, and so on."""
    return tuple(map(sum, zip_longest(*parts, fillvalue=0)))


def worst(parts: Iterable[MirrorState]) -> MirrorState:
    """Return the mirror's state where it is worst: one that takes no writes, then what has waited longest."""
    return max(parts, key=lambda state: (state.error is not None, state.behind_s))
