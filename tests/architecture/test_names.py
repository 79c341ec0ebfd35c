"""A test's name and its sentence say what happens; no code of a list that a reader does not have."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.test_dependencies import PACKAGE, TESTS

if TYPE_CHECKING:
    from pathlib import Path

# `test_o11_…`, `"""O11: …`. Rows of the fault table are words of `scripts/faults --row`, and so is `row_07`.
CODE_IN_NAME = re.compile(r"(?:^|_)[a-z]{1,2}\d{1,2}(?=_|$)")
CODE_IN_SENTENCE = re.compile(r"\b[A-Z]{1,2}\d{1,2}\b|\b[Cc]ontract \d")
SPEAKING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("path", [PACKAGE, TESTS, TESTS.parent / "examples"], ids=lambda path: path.name)
def test_no_name_and_no_sentence_has_a_code(path: Path) -> None:
    """Each finding names its file and line."""
    found = [
        f"{file.relative_to(path)}:{getattr(node, 'lineno', 1)}: {text[:80]}"
        for file in sorted(path.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, SPEAKING)
        for text in _coded(node)
    ]
    assert found == []


def _coded(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    name, sentence = getattr(node, "name", ""), ast.get_docstring(node) or ""
    in_name = name.startswith("test_") and CODE_IN_NAME.search(name)
    return [name] * bool(in_name) + [sentence] * bool(CODE_IN_SENTENCE.search(sentence))
