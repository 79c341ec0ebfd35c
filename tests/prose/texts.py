"""What people read of the project: pages outside of code, docstrings, messages, labels.

Standard library only; nothing of the package is imported. A text has the place where it is written.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
GENERATED = {"docs/reference/messages.md", "docs/reference/options.md"}
# A string with fewer words is a name or a separator.
WORDS_MIN = 2
_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)|<https?://[^>]*>", re.DOTALL)
# What stands between quotes, and between tags.
_LABELS = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`|>([^<>{}]+)<")
_COMMENTS = re.compile(r"/\*.*?\*/|(?<![:\"'])//[^\n]*|<!--.*?-->", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]{2,}")


class Text(NamedTuple):
    """A text, and its file and line. `room` is what its count belongs to."""

    room: str
    place: str
    text: str


@cache
def all_texts() -> tuple[Text, ...]:
    """Return all of them, in the order of their files."""
    return (*pages(), *docstrings_and_messages(), *labels())


def pages() -> Iterator[Text]:
    """Yield each line of each page, without what is code and without the tables of old names."""
    names = [
        "README.md",
        "DESIGN.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/**/*.md",
        "examples/**/*.md",
    ]
    for path in (path for name in names for path in sorted(ROOT.glob(name))):
        name = str(path.relative_to(ROOT))
        if name not in GENERATED:  # they repeat what is counted where it is written
            for number, line in enumerate(prose_of(path.read_text()).splitlines(), 1):
                yield Text(name, f"{name}:{number}", line)


def prose_of(page: str) -> str:
    """Return a page without its code, line by line as it was."""
    text = _CODE.sub(lambda found: "\n" * found[0].count("\n") or "…", page)
    kept, is_of_names = [], False
    for line in text.splitlines():
        is_of_names = line.startswith("|") and (is_of_names or line.startswith("| was | is |"))
        kept.append("" if is_of_names else line)
    return "\n".join(kept)


def docstrings_and_messages() -> Iterator[Text]:
    """Yield the public docstrings of the package and all other strings with words in them."""
    for path in sorted((ROOT / "ehkafka").rglob("*.py")):
        name = path.relative_to(ROOT)
        room = "/".join(name.parts[:2])
        tree = ast.parse(path.read_text())
        documented = dict(_docstrings(tree))
        for node, is_public in documented.items():
            if is_public:
                yield Text(room, f"{name}:{node.lineno}", str(node.value))
        for line, text in _strings(tree, set(documented)):
            if len(_WORD.findall(text)) >= WORDS_MIN and " " in text:
                yield Text(room, f"{name}:{line}", text)


def strings_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield all strings of a file but its docstrings, with their lines."""
    yield from _strings(tree, set(dict(_docstrings(tree))))


def _docstrings(tree: ast.AST, *, is_public: bool = True) -> Iterator[tuple[ast.Constant, bool]]:
    for child in [tree] if isinstance(tree, ast.Module) else []:
        yield from _docstring(child, is_public=True)
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            shown = is_public and not node.name.startswith("_")
            yield from _docstring(node, is_public=shown)
            yield from _docstrings(node, is_public=shown)
        elif isinstance(node, ast.If | ast.Try):
            yield from _docstrings(node, is_public=is_public)


def _docstring(node: ast.AST, *, is_public: bool) -> Iterator[tuple[ast.Constant, bool]]:
    first = node.body[0] if getattr(node, "body", None) else None  # type: ignore[attr-defined]
    match first:
        case ast.Expr(value=ast.Constant(value=str()) as found):
            yield found, is_public


def _strings(node: ast.AST, documented: set[ast.Constant]) -> Iterator[tuple[int, str]]:
    """Yield strings with their lines, of f-strings the fixed parts with `{…}` between them."""
    match node:
        case ast.Constant(value=str() as text) if node not in documented:
            yield node.lineno, text
        case ast.JoinedStr(values=parts):
            shown = (part.value if isinstance(part, ast.Constant) else _braced(part) for part in parts)
            yield node.lineno, "".join(map(str, shown))
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _strings(child, documented)


def _braced(part: ast.AST) -> str:
    assert isinstance(part, ast.FormattedValue)
    return "{" + ast.unparse(part.value) + ("!r" if part.conversion == ord("r") else "") + "}"


def labels() -> Iterator[Text]:
    """Yield the words of the pages that are served: strings and text between tags."""
    for path in sorted((ROOT / "ehkafka").rglob("*")):
        if path.suffix in {".js", ".html"}:
            name = path.relative_to(ROOT)
            text = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), path.read_text())
            for found in _LABELS.finditer(text):
                label = next(filter(None, found.groups()), "")
                if len(_WORD.findall(label)) >= WORDS_MIN and " " in label:
                    line = text.count("\n", 0, found.start()) + 1
                    yield Text("/".join(name.parts[:2]), f"{name}:{line}", label)
