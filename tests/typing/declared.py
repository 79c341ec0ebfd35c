"""What is written out of the declarations of options: keyword types for editors, and tables of the docs.

`python -m tests.typing.declared` writes them; `test_keywords` compares.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.settings import PROPERTIES, Settings, options_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.settings.option import Option

ROOT = Path(__file__).parents[2]
KEYWORDS = ROOT / "ehkafka" / "app" / "keywords.py"
PAGE = ROOT / "docs" / "settings.md"
WIDTH = 110
# `App` names them itself; types that lie above the room of settings.
OF_APP = {"group": "str", "start": "Start"}


def keywords() -> str:
    """Return the module of keyword types, with what is declared now."""
    settings = options_of(Settings)
    classes = {
        "AppSettings": [one for one in settings if one.name not in OF_APP],
        "ChangedSettings": [one for one in settings if one.name in OF_APP],
    }
    text = KEYWORDS.read_text()
    for name, options in classes.items():
        found = re.search(rf'^class {name}\(.*?\):\n    """.*?"""\n', text, re.MULTILINE | re.DOTALL)
        assert found, name
        after = text.find("\n\n\nclass ", found.end() - 1)
        rest = "" if after < 0 else text[after + 1 :]
        text = text[: found.end()] + "".join(map(_keyword, options)) + rest
    return text


def page() -> str:
    """Return the page of settings, with what is declared now."""
    text = PAGE.read_text()
    for section, rows in list(_sections()):
        start = text.index("| setting |", text.index(f"\n## {section}\n"))
        end = text.index("\n\n", start)
        text = (
            text[:start]
            + "\n".join(["| setting | default | what it decides |", "|---|---|---|", *rows])
            + text[end:]
        )
    return text


def _keyword(one: Option) -> str:
    words = f"{one.facts[0].upper()}{one.facts[1:]}: {one.words}"
    lines = textwrap.wrap(
        f'"""{words}',
        WIDTH,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if len(lines) > 1 or len(lines[0]) + 3 > WIDTH:
        lines.append("    ")
    return f"\n    {one.name}: {OF_APP.get(one.name, one.type)}\n" + "\n".join(lines) + '"""\n'


def _sections() -> Iterator[tuple[str, list[str]]]:
    rows: list[str] = []
    for one in options_of(Settings):
        if one.name in PROPERTIES:  # the page has a section of a file for them
            continue
        if one.section:
            rows = []
            yield one.section, rows
        rows.append(f"| `{one.name}` | {_default(one)} | {one.meaning} |")


def _default(one: Option) -> str:
    if one.default is MISSING:
        return "required"
    if one.default is None:
        return "–"
    values: Iterable[object] = (one.default, *(word for word in one.one_of if word != one.default))
    shown = (f"{value:.0f}" if isinstance(value, float) else json.dumps(value) for value in values)
    return ", ".join(f"`{value}`" for value in shown)


if __name__ == "__main__":
    KEYWORDS.write_text(keywords())
    PAGE.write_text(page())
