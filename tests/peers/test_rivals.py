"""The rivals' sides: each says which version it is, what it cannot do, and where its settings come from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

RIVALS = ("parallel_consumer", "prosody_events", "pyrallel", "quix", "sentry_arroyo")


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
