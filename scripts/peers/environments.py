"""One environment for each side: a virtual environment with pinned packages, kept until its pins change."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers.catalogue import Side

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "peers"
LAST_LINES = 6


class EnvironmentFailedError(Exception):
    """A side's environment cannot be made; the message says why, and what to do."""


def command_of(side: Side, cache: Path = CACHE) -> list[str]:
    """Return what starts a side's program, without its options; makes its environment where it is not there.

    Raises `EnvironmentFailedError`.
    """
    if side.language == "java":
        # Only here: compiles with a JDK, which a machine may lack.
        from peers import java  # noqa: PLC0415

        return java.command(side.settings, side.program, cache)
    return [str(_python_of(side, cache)), str(side.program)]


def environment_of(side: Side) -> dict[str, str]:
    """Return the environment variables of a side's process: ehkafka's finds this checkout, others nothing."""
    left_out = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    found = {name: value for name, value in os.environ.items() if name not in left_out}
    return found | {"PYTHONPATH": str(ROOT)} if side.checkout else found


def key_of(side: Side) -> str:
    """Return what changes when an environment has to be made anew."""
    parts = [sys.version, str(side.settings.get("python", "")), *side.packages]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _python_of(side: Side, cache: Path) -> Path:
    folder = cache / side.name
    stamp, python = folder / "made.json", folder / "bin" / "python"
    if _key_in(stamp) == key_of(side) and python.exists():
        return python
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run(side, [_base_python(side), "-m", "venv", str(folder)])
    quietly = ["--quiet", "--disable-pip-version-check", "--no-input"]
    _run(side, [str(python), "-m", "pip", "install", *quietly, *side.packages])
    stamp.write_text(json.dumps({"key": key_of(side), "packages": side.packages}), encoding="utf-8")
    return python


def _base_python(side: Side) -> str:
    """Return the Python that a side's environment is made with: this one, or a newer one that it needs."""
    oldest = side.settings.get("python")
    if oldest is None:
        return sys.executable
    # Only here: asks other Pythons for their versions.
    from peers.pythons import find_python  # noqa: PLC0415

    found = find_python(oldest)
    if found is None:
        raise EnvironmentFailedError(
            f"{side.title} needs Python {oldest} or newer, and none was found: install one."
        )
    return found


def _key_in(stamp: Path) -> str | None:
    try:
        return str(json.loads(stamp.read_text(encoding="utf-8"))["key"])
    except (OSError, ValueError, KeyError):
        return None


def _run(side: Side, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:])
        raise EnvironmentFailedError(
            f"The environment of {side.title} cannot be made ({' '.join(side.packages)}). "
            f"Fix what pip reports, or leave it out with --sides:\n{words}"
        )
