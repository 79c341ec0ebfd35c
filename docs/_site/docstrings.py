"""Docstrings as autodoc reads them: what Markdown permits around code, in reStructuredText.

A dataclass gets a line for each field that has a comment, an event its level. What only ehkafka calls, by its
docstring's first word, has no place; a class that no program calls is drawn without its parameters.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import logging
import re
from typing import TYPE_CHECKING, Any

from ehkafka.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

_CODE = re.compile(r"(?<![`\w])`([^`\n]+)`(?!`)(?=(\w?))")
_FENCE = re.compile(r" *```(?P<language>\w*)")
_ITEM = re.compile(r"(?P<indent> *)- ")
_INNER = "Inner: "
# A default that has no text of its own, such as that of a `default_factory`.
_NO_TEXT = re.compile(r"<[^<>]+>")


def translate(_app: Sphinx, what: str, _name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Called by autodoc with the lines of each docstring, which are changed in place."""
    more = list(_about_class(thing, "\n".join(lines))) if what == "class" else []
    lines[:] = _translated([*lines, *more, ""])


def sign(
    _app: Sphinx,
    _what: str,
    _name: str,
    thing: Any,
    _options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Called by autodoc with each signature, which Sphinx links to types where it is Python."""
    if _is_never_called(thing):
        return signature and "", None
    return signature and _NO_TEXT.sub("...", signature), returned


def skip(_app: Sphinx, _what: str, _name: str, thing: Any, _skip: bool, _options: Any) -> bool | None:
    """Called by autodoc with each member of a class: leaves out what only ehkafka calls."""
    return True if (inspect.getdoc(thing) or "").startswith(_INNER) else None


def _is_never_called(thing: Any) -> bool:
    """Tell whether no program calls a class: it is made by ehkafka, implemented by programs, or an enum."""
    return inspect.isclass(thing) and (
        "Made by " in (inspect.getdoc(thing) or "")
        or issubclass(thing, enum.Enum)
        or getattr(thing, "_is_protocol", False)
    )


def _about_class(kind: type, docstring: str) -> Iterator[str]:
    """Yield what stands in the class but not in its docstring."""
    if issubclass(kind, Event) and kind is not Event:
        yield from ("", f"Logged as {logging.getLevelName(kind.level)}.")
    if dataclasses.is_dataclass(kind):
        yield ""
        is_read = _is_never_called(kind)
        for name, kind_of_field, comment in _commented(inspect.getsource(kind)):
            if f"- `{name}`" not in docstring and not comment.startswith(_INNER):
                # A signature has the types, where there is one.
                yield f"- `{name}` (`{kind_of_field}`): {comment}" if is_read else f"- `{name}`: {comment}"


def _commented(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield the public fields with a comment above them, their types, and its sentences."""
    lines = source.splitlines()
    for node in getattr(ast.parse(source).body[0], "body", ()):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            first = node.lineno - 1
            while lines[first - 1].strip().startswith("#"):
                first -= 1
            if comment := " ".join(line.strip().lstrip("# ") for line in lines[first : node.lineno - 1]):
                yield node.target.id, ast.unparse(node.annotation), comment


def _translated(lines: list[str]) -> Iterator[str]:
    """Yield blocks as directives, lists apart, and code with two backticks, ended where a letter follows."""
    is_block, indent = False, None
    for line in lines:
        if item := _ITEM.match(line):
            if item["indent"] != indent:
                yield ""
            indent = item["indent"]
        elif not line.startswith(" "):
            indent = None
        if fence := _FENCE.fullmatch(line):
            is_block = not is_block
            yield from ("", f".. code-block:: {fence['language'] or 'text'}", "") if is_block else ("",)
        elif is_block:
            yield f"   {line}"
        else:
            yield _CODE.sub(lambda found: f"``{found[1]}``" + ("\\ " if found[2] else ""), line)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", translate)
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
