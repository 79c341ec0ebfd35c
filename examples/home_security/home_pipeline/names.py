"""What people call homes and sensors: a home's address, a kind's label, and which homes a search may mean.

Pure: names come from numbers, so that no list of homes is kept.
"""

from __future__ import annotations

import re

_TREES = """
Alder Ash Aspen Beech Birch Bramble Briar Broom Cedar Cherry Chestnut Clover Cypress Damson Elder Elm Fern Fir
Gorse Hawthorn Hazel Heather Holly Ivy Juniper Larch Laurel Lavender Lilac Lime Linden Maple Medlar Mulberry
Myrtle Oak Olive Pear Pine Plum Poplar Quince Rowan Sage Spruce Sycamore Thorn Walnut Willow Yew
"""
_WAYS = """
Lane Road Street Close Avenue Walk Way Hill Row Court Drive Gardens Grove Place Park Rise Square Terrace
View Mews
"""
_STREETS = [f"{tree} {way}" for way in _WAYS.split() for tree in _TREES.split()]
STREETS = [_STREETS[number * 387 % len(_STREETS)] for number in range(len(_STREETS))]
"""By the last three digits of a home's number; neighbours by number are none by address."""

_LABELS = {
    "door_front": "Front door",
    "door_garden": "Garden door",
    "window_kitchen": "Kitchen window",
    "window_bedroom": "Bedroom window",
}
_NUMBER = re.compile(r"(?:home)?[ -]?([0-9]{1,6})")
_ADDRESS = re.compile(r"([0-9]{0,4})\s*([a-z][a-z ]*)")


def home_name(number: int) -> str:
    """Return a home's key."""
    return f"home-{number:06d}"


def address(number: int) -> str:
    """Return what people call a home, such as `12 Alder Lane`; no two homes have the same."""
    house, street = divmod(number, len(STREETS))
    return f"{(house ^ street % 64) + 1} {STREETS[street]}"


def label(kind: str) -> str:
    """Return what people call a kind of sensor; one that is in no table by its own name."""
    return _LABELS.get(kind) or kind.replace("_", " ").capitalize()


def meant(text: str) -> tuple[list[int], list[int]]:
    """Return the numbers of homes that a search may mean, and the streets: all homes in these."""
    wanted = text.strip().lower()
    if numbered := _NUMBER.fullmatch(wanted):
        return [int(numbered[1])], []
    if not (addressed := _ADDRESS.fullmatch(wanted)):
        return [], []
    streets = [number for number, street in enumerate(STREETS) if addressed[2] in street.lower()]
    if not addressed[1]:
        return [], streets
    house = max(0, int(addressed[1]) - 1)
    return [(house ^ street % 64) * len(STREETS) + street for street in streets], []
