from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ehkafka.endpoint

ROOM = Path(ehkafka.endpoint.__file__).parent


def runtime_imports(path: Path) -> set[str]:
    """Return the modules that a file imports when it is loaded or run, type checking aside."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.name)
def test_two_files_know_librdkafka(path: Path) -> None:
    """`client` opens it and `broker_errors` knows its codes; the rest is values and text, usable without."""
    uses = any(name.split(".")[0] == "confluent_kafka" for name in runtime_imports(path))
    assert uses == (path.name in {"client.py", "broker_errors.py"})


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.name)
def test_the_room_depends_on_values_only(path: Path) -> None:
    """Values, itself, and of the embedded broker what an endpoint and a consumer of it are."""
    rooms = (
        "embedded.by_time",
        "embedded.shared",
        "endpoint",
        "errors",
        "events",
        "records",
        "settings.secret",
        "wording",
    )
    allowed = tuple(f"ehkafka.{room}" for room in rooms)
    ours = {name for name in runtime_imports(path) if name.split(".")[0] == "ehkafka"}
    assert {name for name in ours if not name.startswith(allowed)} == set()
