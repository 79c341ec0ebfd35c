"""`scripts/release`: what it refuses, what the archives hold, and that each extra is tried."""

from __future__ import annotations

import importlib
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
READY = {
    "version": "1.2.0",
    "heading": "1.2.0 (2026-12-31)",
    "home": "https://home.example/ehkafka",
    "changed": (),
    "tags": frozenset({"v1.1.0", "v1.2.0"}),
    "tags_here": frozenset({"v1.2.0"}),
}
NOT_YET = "not published yet"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports one of its modules."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return lambda name: importlib.import_module(f"_release.{name}")


@pytest.mark.parametrize(
    ("change", "tag", "reason"),
    [
        ({}, "v1.2.0", None),
        ({"tags": frozenset(), "tags_here": frozenset()}, None, None),
        ({"home": NOT_YET, "heading": f"1.2.0 ({NOT_YET})"}, None, None),
        ({"changed": ("README.md",)}, None, "1 files differ from the commit .README.md."),
        ({"heading": "1.2.0a1 (2026-12-31)"}, None, "CHANGELOG.md begins with '1.2.0a1"),
        ({"tags_here": frozenset()}, None, "v1.2.0 names another commit"),
        ({"tags_here": frozenset({"v1.2.0", "v9"})}, None, "v9 names this commit of version 1.2.0"),
        ({}, "v1.1.0", "v1.1.0 does not name this commit"),
        ({"tags": frozenset(), "tags_here": frozenset()}, "v1.2.0", "v1.2.0 does not name this commit"),
        ({"heading": f"1.2.0 ({NOT_YET})"}, "v1.2.0", "write the day"),
        ({"home": NOT_YET}, "v1.2.0", f"home = '{NOT_YET}'"),
    ],
)
def test_it_refuses_a_tree_that_is_not_the_version(
    release: Any, change: dict[str, Any], tag: str | None, reason: str | None
) -> None:
    """With one sentence for each reason; a trial needs no tag, no day and no home."""
    tree = release("tree")
    found = tree.refusals(tree.Tree(**READY | change), tag)
    assert len(found) == (reason is not None)
    assert re.search(reason or "", "".join(found))


def test_version_changelog_and_home_agree_now(release: Any) -> None:
    """The checkout could be built as it is; where it has a home, the metadata link to it."""
    state = release("tree").read()
    assert state.heading.split()[0] == state.version
    urls = PROJECT["project"].get("urls", {"Home": NOT_YET})
    assert all(url.startswith(state.home) for url in urls.values())


def test_a_wheel_moves_the_modules_that_spark_finds(release: Any) -> None:
    """All else stays where it is, and nothing outside of the package comes along."""
    tracked = ["README.md", "tests/a.py", "ehkafka/a.py", "ehkafka/spark/register/pyspark_a.py"]
    info = "ehkafka-1.dist-info"
    found = release("archives").wheel_names(tracked, "1")
    assert {name for name in found if not name.startswith(info)} == {"ehkafka/a.py", "pyspark_a.py"}
    assert {f"{info}/METADATA", f"{info}/licenses/LICENSE"} < found


def test_each_extra_has_a_program(release: Any) -> None:
    """Its own, or those of the extras that it includes; and no program is left over."""
    tried = release("tried")
    assert all(tried.programs(extra) for extra in tried.extras())
    ran = {path for extra in tried.extras() for path in tried.programs(extra)}
    assert ran == set(tried.PROGRAMS.glob("*.py"))
    assert len(tried.programs("all")) > len(tried.programs("web")) > len(tried.programs("metrics"))


@pytest.mark.parametrize("name", ["ehkafka-1-py3-none-any.whl", None])
def test_a_copy_without_the_package_installs_the_wheel(
    name: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For `scripts/test --wheel`: another build of the same version, too; a checkout stays in place."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    environment = importlib.import_module("_environment")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "dist").mkdir()
    if name is None:
        (tmp_path / "ehkafka").mkdir()
    wheel = tmp_path / "dist" / (name or "ehkafka-1-py3-none-any.whl")
    keys = []
    for build in (b"one", b"two"):
        wheel.write_bytes(build)
        keys.append(environment.environment_key())
    assert (keys[0] != keys[1]) == (name is not None)
    steps: list[str] = []
    monkeypatch.setattr(
        environment, "step", lambda _title, words, _hint: steps.append(" ".join(map(str, words)))
    )
    environment.install_packages(())
    *earlier, install = steps
    assert [words.rpartition("pip ")[2] for words in earlier] == ["uninstall --yes ehkafka"] * (
        name is not None
    )
    assert f"{wheel}[cli]" in install if name else "--editable .[cli]" in install


def test_each_tool_is_pinned_by_hash(release: Any) -> None:
    """Those of the group, within its bounds; each line of the file names a version and a hash."""
    text = release("run").REQUIREMENTS.read_text()
    pinned = re.findall(r"^(\S+)==(\S+)(?: ;[^\\]*)? \\\n    --hash=sha256:\w{64}", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[^\s#]", text, re.MULTILINE))
    names = {re.split(r"[<>=]", one)[0] for one in PROJECT["dependency-groups"]["release"]}
    assert names <= {name for name, _ in pinned}
