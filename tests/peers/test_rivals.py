"""The rivals' sides: each says which version it is, what it cannot do, and where its settings come from."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

RIVALS = ("parallel_consumer", "prosody_events", "pyrallel", "quix", "sentry_arroyo")
LINK = re.compile(r"https://[^\s)]+")
SETTINGS_MIN = 4


def head_of(side: Any) -> str:
    """Return a program's docstring, or the first comment of a Java file, without importing anything."""
    text: str = side.program.read_text()
    if side.language == "java":
        return text[: text.index("*/")]
    return ast.get_docstring(ast.parse(text)) or ""


def rivals(peers: Any) -> list[Any]:
    """Return the sides that this file is about."""
    found = [side for side in peers("catalogue").all_sides() if side.name in RIVALS]
    assert len(found) == len(RIVALS)
    return found


def test_each_work_is_done_or_has_a_reason(peers: Any) -> None:
    """A work that a library cannot do has its reason, and is never left out in silence."""
    works = set(peers("catalogue").WORKS)
    for side in rivals(peers):
        done = {work for mode in side.modes for work in mode.works}
        assert done | side.cannot.keys() == works, side.name
        assert all(len(reason.split()) > 1 for reason in side.cannot.values()), side.name


def test_what_keeps_no_order_of_a_key_says_so(peers: Any) -> None:
    """Several at once without the order of a key is another work, and has its reason."""
    for side in rivals(peers):
        for mode in side.modes:
            if mode.order != "key" and "sleep" in mode.works:
                assert "sleep" in side.cannot, mode.title


def test_the_head_names_the_version_and_links_each_setting(peers: Any) -> None:
    """A reader can look up every setting in that rival's own documentation."""
    for side in rivals(peers):
        head = head_of(side)
        pinned = [*side.packages, *side.settings.get("artifacts", ())]
        assert side.version in head.splitlines()[1 if side.language == "java" else 0], side.name
        assert any(one.endswith(side.version) for one in pinned), side.name
        assert "Settings, from https://" in head, side.name
        settings = re.findall(r"^ ?\*? ?- ", head[head.index("Settings, from") :], re.MULTILINE)
        assert len(settings) >= SETTINGS_MIN, side.name
        assert LINK.search(head), side.name


def test_a_jar_that_is_not_pinned_is_refused(
    peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but what was looked at runs on the JVM."""
    java, side = peers("java"), next(one for one in rivals(peers) if one.language == "java")
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in side.settings["jars"].values())

    def download(_wanted: Any, repository: Any, _report: Any) -> list[Any]:
        repository.mkdir()
        jar = repository / next(iter(side.settings["jars"]))
        jar.write_bytes(b"another")
        return [jar]

    monkeypatch.setattr(java, "_jdk", lambda _title: ("java", "javac"))
    monkeypatch.setattr(java.jars, "_download", download)
    with pytest.raises(peers("environments").EnvironmentFailedError, match="not the file that is pinned"):
        java.command(side.settings, side.program, tmp_path)
    assert not (tmp_path / side.name / "jars").exists()


def test_without_a_jdk_it_says_what_to_do(
    peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other part of the project needs one."""
    java, side = peers("java"), next(one for one in rivals(peers) if one.language == "java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(peers("environments").EnvironmentFailedError, match="leave this side out"):
        java.command(side.settings, side.program, tmp_path)


def test_a_newer_python_is_found_or_there_is_none(peers: Any, tmp_path: Path) -> None:
    """A shim that fails is no Python, and this one is taken wherever it may."""
    pythons = peers("pythons")
    assert pythons.find_python(None) == pythons.find_python("3.11") == sys.executable
    assert pythons.find_python("3.99") is None
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    assert pythons._version_of(str(shim)) == (0, 0)
    assert pythons._version_of(sys.executable) == sys.version_info[:2]
    with pytest.raises(ValueError, match="is not a version of Python"):
        pythons.find_python("3")
