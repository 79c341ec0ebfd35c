"""CONTRIBUTING.md and the templates: what they name is there, and they ask for no secret."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.kit.pages import ROOT

BYTES_MAX = 6_656
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
FORMS: dict[str, Any] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    if path.stem != "config"
}


def test_it_is_short_and_names_what_is_there() -> None:
    """Each path, each module that is run, and each file that a recipe touches."""
    assert len(TEXT.encode()) <= BYTES_MAX
    named = [word for code in re.findall(r"`([^`]+)`", TEXT.replace("```", "")) for word in code.split()]
    paths = {word for word in named if re.fullmatch(r"\.?\w+/[\w./]*", word)}
    modules = {f"{word.replace('.', '/')}.py" for word in named if word.startswith("tests.")}
    assert len(paths) > 20
    assert [
        name for name in paths | modules if not name.startswith("build/") and not (ROOT / name).exists()
    ] == []


@pytest.mark.parametrize("name", FORMS)
def test_a_form_asks_for_what_an_answer_needs_and_no_secret(name: str) -> None:
    """By the fields that GitHub knows."""
    parts = FORMS[name]["body"]
    assert {part["type"] for part in parts} <= {"markdown", "textarea", "input", "dropdown"}
    assert all(part["attributes"].get("label") for part in parts if part["type"] != "markdown")
    text = str(parts)
    assert "ehkafka check" in text
    assert "ehkafka --version" in text
    assert parts[0]["attributes"]["value"].startswith("Remove keys, tokens, connection strings")
