"""The page of settings says what the code does; its tables of the app's settings are written out of it."""

from __future__ import annotations

import re

from ehkafka.app.configuration import ENDPOINT_KEYS
from ehkafka.cli.settings.variables import _MIRROR
from tests.kit.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "settings.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| `")
]


def test_the_ways_to_the_broker_and_the_mirrors_variables_are_all_there() -> None:
    """In their own tables, which have two columns."""
    others = {row[0].strip("`") for row in ROWS if len(row) == 2}
    assert others == {*ENDPOINT_KEYS, *_MIRROR}
    assert re.search(r"Exactly one of the first four", PAGE.read_text())
