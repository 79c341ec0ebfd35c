"""Finds the Python for a side whose library does not take the one that runs this.

Looks on the PATH and among pyenv's versions; never installs one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NEWEST_MINOR = 14
ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def find_python(oldest: str | None) -> str | None:
    """Return a Python not older than `oldest` (as "3.12"), this one if it may; `None` where there is none."""
    wanted = _numbers(oldest) if oldest else (0, 0)
    if sys.version_info[:2] >= wanted:
        return sys.executable
    return next((one for one in _candidates(wanted) if _version_of(one) >= wanted), None)


def _numbers(version: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(f"{version!r} is not a version of Python such as 3.12")
    return int(found[1]), int(found[2])


def _candidates(wanted: tuple[int, int]) -> Iterator[str]:
    for minor in range(wanted[1], NEWEST_MINOR + 1):
        yield f"python{wanted[0]}.{minor}"
        yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{wanted[0]}.{minor}.*/bin/python")))


def _version_of(python: str) -> tuple[int, int]:
    """Ask it; (0, 0) where there is none, or only a shim of pyenv's without a version behind it."""
    try:
        answer = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    return _numbers(answer.strip())
