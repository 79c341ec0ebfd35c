"""The wheel of this checkout, installed into an environment of its own, is what users run.

Its dependencies are those of the environment that runs the tests: that folder is added behind the wheel, by a
line that does not read the links to the checkout in there.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.testing import EmbeddedBroker

# Each runs against the wheel, outside of the checkout: an app's life, and the fixtures that the wheel brings.
TESTS = ("tests/contract/test_app_commits.py", "tests/testing/test_plugin.py", "tests/wheel/test_which.py")
# Those whose extras the tests' environment has. Spark's takes long, and has tests of its own.
TRIED = ("arrow", "avro", "cli", "core", "metrics", "otel", "reload", "top", "types", "web")
IMPORT_ALL = """
import importlib, pkgutil, ehkafka
for module in pkgutil.walk_packages(ehkafka.__path__, "ehkafka."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(ehkafka.__file__)
"""
RUN_S = 110


class Installed:
    """A virtual environment with the wheel, and a folder to run in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "elsewhere"
        self.folder.mkdir()
        self._environment = folder / "environment"
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
        run(sys.executable, "-m", "venv", "--without-pip", str(self._environment), cwd=folder)
        (self.wheel,) = folder.glob("*.whl")
        into = ("--python", self.program("python"), "install", "--no-deps", "--no-index", "--no-compile")
        run(sys.executable, "-m", "pip", *into, str(self.wheel), cwd=folder)
        (self.packages,) = self._environment.glob("lib/python*/site-packages")
        (self.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def program(self, name: str) -> str:
        """Return the path of one of its programs."""
        return str(self._environment / "bin" / name)

    def run(self, name: str, *words: str, **variables: str) -> str:
        """Run a program in a folder that is no checkout; return what it printed."""
        return run(self.program(name), *words, cwd=self.folder, **variables)


def run(*command: str, cwd: Path, **variables: str) -> str:
    """Run a command without the ways to this checkout; return what it printed, or fail with it."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"} | variables
    ended = subprocess.run(
        command, cwd=cwd, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel and install it."""
    return Installed(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a module of `scripts`."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module


def test_every_module_of_the_wheel_is_imported_from_there(installed: Installed) -> None:
    """None needs a file that only the checkout has; the metadata has a description and the extras."""
    imported = installed.run("python", "-c", IMPORT_ALL).strip()
    assert imported == str(installed.packages / "ehkafka/__init__.py")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "from importlib import metadata; print(*metadata.metadata('ehkafka').get_all('Provides-Extra'))"
    assert set(installed.run("python", "-c", code).split()) == set(extras)


@pytest.mark.parametrize("extra", TRIED)
def test_the_program_of_an_extra_runs_on_the_wheel(installed: Installed, extra: str) -> None:
    """`scripts/release` runs the same where only that extra is installed; here all extras are there."""
    installed.run("python", "-I", str(ROOT / f"tests/wheel/programs/try_{extra}.py"))


def test_the_wheel_holds_what_git_tracks(installed: Installed, scripts: Any) -> None:
    """No file of the package is left out, and none that is not the package's comes along."""
    archives = scripts("_release.archives")
    tracked = archives.git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    with zipfile.ZipFile(installed.wheel) as wheel:
        assert set(wheel.namelist()) == archives.wheel_names(tracked, ehkafka.__version__)


def test_the_first_app_of_the_readme_runs_by_the_installed_command(
    installed: Installed, embedded_broker: EmbeddedBroker
) -> None:
    """`ehkafka run` of the wheel handles what is there, commits it and ends."""
    embedded_broker.create_topic("readings", 1)
    embedded_broker.produce("readings", [(b"home-1", b'{"door": "open"}'), (b"home-1", b'{"door": "shut"}')])
    page = next(block.text for block in blocks_of(ROOT / "README.md") if block.language == "python")
    text = page.replace("localhost:9092", embedded_broker.bootstrap)
    (installed.folder / "first.py").write_text(text)
    shown = installed.run("ehkafka", "run", "first:app", "--until-caught-up")
    assert "{'door': 'open'}" in shown
    assert shown.index("{'door': 'open'}") < shown.index("{'door': 'shut'}")
    assert embedded_broker.committed("home-security", "readings") == {0: 2}


@pytest.mark.timeout(RUN_S)
def test_tests_of_ours_pass_against_the_wheel(installed: Installed, scripts: Any) -> None:
    """In the copy that `scripts/test --wheel` makes of the checkout, where none of them finds the sources."""
    copy = scripts("_wheel_copy").make(installed.wheel, installed.folder.with_name("copy"))
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *TESTS)
    shown = run(installed.program("python"), *words, cwd=copy)
    assert " passed" in shown
    assert "skipped" not in shown


def test_no_page_and_no_message_asks_an_index_for_our_name() -> None:
    """A stranger who registers it there would be in every image that copies such a line."""
    asks = (
        "pip install ehkafka",
        "pip install 'ehkafka",
        "install --no-cache-dir 'ehkafka",
        "-m pip install ehk",
    )
    read = [*(ROOT / "ehkafka").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    read += [path for path in (ROOT / "examples").rglob("*") if path.suffix in {".md", ".py", ""}]
    files = [path for path in read if path.is_file()]
    assert [path for path in files if any(one in path.read_text() for one in asks)] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_a_page_that_names_an_extra_links_to_how_it_is_installed(page: Path) -> None:
    """One place says it, for all of them."""
    text = page.read_text()
    assert "extra `[" not in text or re.search(r"\]\((\.\./|start/)*install\.md(#extras)?\)", text)
