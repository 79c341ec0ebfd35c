"""DESIGN.md stays short and true: what it names is there, what it leaves to the code stands in the code."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.architecture.test_dependencies import MODULES, PACKAGE, ROOMS, TESTS

if TYPE_CHECKING:
    from pathlib import Path

DESIGN = TESTS.parent / "DESIGN.md"
TEXT = DESIGN.read_text(encoding="utf-8")
BYTES_MAX = 21_500
# None is dropped to keep the page short.
INVARIANTS_MIN = 52
GROUPS = (
    "Lanes and workers",
    "Polling and commits",
    "Credentials and stores",
    "Spark",
    "Members",
    "By hand",
    "Payloads, outputs, loops",
    "Exactly once",
)
# Names of other programs in our docstrings.
ELSEWHERE = {"npm_config_registry"}


def _section(title: str) -> str:
    """Return what stands under a heading, up to the next one of its rank."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"DESIGN.md has no section {title!r}"
    return found[1]


def test_it_is_read_in_ten_minutes() -> None:
    """What is more belongs to the line that it is about."""
    assert len(TEXT.encode()) <= BYTES_MAX


def test_each_invariant_has_its_group_and_its_test() -> None:
    """One sentence and `path::name` of a test that is there, counted through over all groups."""
    body = _section("Invariants")
    assert tuple(re.findall(r"^### (.*)$", body, re.MULTILINE)) == GROUPS
    lines = re.findall(r"^(\d+)\. (.*)$", body, re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, len(lines) + 1))
    assert len(lines) >= INVARIANTS_MIN
    for number, line in lines:
        held_by = re.search(r"\. `([\w/]+\.py)::(test_\w+)`$", line)
        assert held_by, f"{number}: it must end with the test that holds it, as `path::name`"
        assert held_by[2] in _functions(TESTS / held_by[1]), f"{number}: there is no {held_by[0][2:]}"


def _functions(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_walk_names_what_is_there() -> None:
    """Each module, class, function and method that a record passes, by its path below `ehkafka`."""
    names = re.findall(r"`(\w+(?:\.\w+)+)`", _section("A record's way"))
    assert len(names) >= len(GROUPS)
    assert [name for name in names if not _is_there(name)] == []


def _is_there(name: str) -> bool:
    module, rest = name, list[str]()
    while module not in MODULES:
        module, _, last = module.rpartition(".")
        if not module:
            return False
        rest.insert(0, last)
    body: list[ast.stmt] = MODULES[module].body
    for part in rest:
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [node for node in body if isinstance(node, kinds) and node.name == part]
        if not found:
            return False
        body = found[0].body
    return True


def test_the_rooms_stand_in_their_order() -> None:
    """All that are there, as the architecture test has them."""
    line = next(line for line in _section("Rooms").splitlines() if line.startswith("errors · "))
    reported = [entry.split()[0].strip(".") for entry in line.split(". `tests/kit`")[0].split(" · ")]
    there = {name.partition(".")[0] for name in MODULES} - {"__main__"}
    assert reported == [room or "the" for room in ROOMS if room in there]  # the root


def test_a_room_says_what_each_of_its_files_is_for() -> None:
    """DESIGN.md has no map of files: a module, and a folder, stands in its room's `__init__`."""
    unnamed = {str(init.relative_to(PACKAGE)): unnamed_in(init) for init in PACKAGE.rglob("__init__.py")}
    assert {room: names for room, names in unnamed.items() if names} == {}


def unnamed_in(init: Path) -> list[str]:
    """Return the files and folders of a room that its docstring does not name."""
    tree = ast.parse(init.read_text(encoding="utf-8"))
    words = ast.get_docstring(tree) or ""
    assert words, "no docstring"
    if init.parent == PACKAGE:
        return []  # the root's map of rooms is DESIGN.md's
    files = {path.stem for path in init.parent.glob("*.py")} - {"__init__", "__main__"}
    folders = {path.parent.name for path in init.parent.glob("*/*.py")}
    quoted = {word for span in re.findall(r"```(.*?)```|`(.*?)`", words, re.DOTALL) for word in _words(span)}
    below = (node for part in tree.body[1:] for node in ast.walk(part) if isinstance(node, ast.Constant))
    quoted |= {word for node in below for word in re.findall(r"\w+", str(node.value))}
    return sorted((files | folders) - quoted)


def test_docstrings_name_modules_by_their_present_names() -> None:
    """A name of two words in a module's docstring is a file's or is written somewhere in the code."""
    known = {path.stem for path in PACKAGE.rglob("*.py")} | ELSEWHERE
    for tree in MODULES.values():
        for node in ast.walk(tree):
            known.update(str(getattr(node, field, "")) for field in ("name", "id", "attr", "arg", "value"))
    unknown = [
        f"{module or 'ehkafka'}: {name}"
        for module, tree in MODULES.items()
        for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", ast.get_docstring(tree) or "")
        if name not in known
    ]
    assert unknown == []


def _words(span: tuple[str, str]) -> list[str]:
    return re.findall(r"\w+", " ".join(span))
