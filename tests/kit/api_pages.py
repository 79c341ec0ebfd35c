"""What the pages of the API draw: by their directives, as autodoc reads them.

Loads what is drawn; called by tests of these pages and of docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.kit.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFERENCE = ROOT / "docs" / "reference"
_DIRECTIVE = re.compile(r"^\.\. auto\w+:: (?P<name>[\w.]+)\n(?P<options>(?:   :.*\n)*)", re.MULTILINE)
INNER = "Inner: "
"""Begins the docstring of a public member that only ehkafka calls. The site leaves it out."""


class Drawn(NamedTuple):
    """A name on a page, and what it names."""

    page: Path
    name: str
    thing: Any


def shown() -> frozenset[str]:
    """Return the dotted names that the pages ask autodoc for, modules among them."""
    return frozenset(found["name"] for _, found in _directives())


def drawn() -> Iterator[Drawn]:
    """Yield what pages of the API draw with a signature: functions, classes, and methods of these."""
    for page, found in _directives():
        if page.parent.name != "api":  # events, each of which is a class of plain fields
            continue
        thing = _thing(found["name"])
        if not inspect.isroutine(thing) and not inspect.isclass(thing):
            continue
        yield Drawn(page, found["name"], thing)
        if inspect.isclass(thing) and ":members:" in found["options"]:
            kinds = thing.__mro__ if ":inherited-members:" in found["options"] else (thing,)
            for name in {name for kind in kinds for name in vars(kind) if kind.__module__[:7] == "ehkafka"}:
                member = getattr(thing, name)
                is_drawn = name[0] != "_" and not (inspect.getdoc(member) or INNER).startswith(INNER)
                if is_drawn and inspect.isroutine(member) and callable(member):
                    yield Drawn(page, f"{found['name']}.{name}", member)


def _directives() -> Iterator[tuple[Path, re.Match[str]]]:
    for page in sorted(REFERENCE.rglob("*.md")):
        for found in _DIRECTIVE.finditer(page.read_text()):
            yield page, found


def _thing(dotted: str) -> Any:
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for name in parts[count:]:
            thing = getattr(thing, name)
        return thing
    raise ImportError(dotted)
