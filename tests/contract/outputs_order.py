"""Judges an output topic: each output at least once, each key's in order but for repeats from a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def problems(
    inputs: Mapping[bytes, Sequence[Any]], outputs: Iterable[tuple[bytes, Any]], *, repeats: bool = True
) -> list[str]:
    """Return what is wrong with outputs, given what each key's were to be, in order.

    A repeat goes back to something that was there before and goes on from it: no output is ever passed over.
    """
    places = {key: {value: place for place, value in enumerate(values)} for key, values in inputs.items()}
    last: dict[bytes, int] = {}
    found: dict[bytes, set[int]] = {key: set() for key in inputs}
    wrong: list[str] = []
    for key, value in outputs:
        place, before = places[key][value], last.get(key, -1)
        if place > before + 1:
            wrong.append(f"{key!r}: {value} came behind number {before}, is number {place}")
        if not repeats and place <= before:
            wrong.append(f"{key!r}: {value} came again")
        last[key] = place
        found[key].add(place)
    for key, values in inputs.items():
        if missing := [value for place, value in enumerate(values) if place not in found[key]]:
            wrong.append(f"{key!r}: {len(missing)} are missing, such as {missing[0]}")
    return wrong
