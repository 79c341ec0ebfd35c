"""A copy of the checkout without the package: what its tests import is the wheel that is installed there."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from _environment import ROOT, SetUpError

if TYPE_CHECKING:
    from pathlib import Path

COPY = ROOT / "build" / "wheel-tests"
# A later run installs what has changed.
KEPT = (".venv", ".cache")


def make(wheel: Path, copy: Path = COPY) -> Path:
    """Copy what git tracks or would track, and the wheel, into a folder; return the folder.

    `wheel` is a file, or a folder that has one.
    """
    wheels = [wheel] if wheel.is_file() else sorted(wheel.glob("*.whl"))
    if len(wheels) != 1:
        raise SetUpError(f"{wheel} has {len(wheels)} wheels, and one is needed: `scripts/release` builds it.")
    for path in copy.glob("*"):
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if not name.startswith("ehkafka/") and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / "dist").mkdir()
    shutil.copy(wheels[0], copy / "dist")
    return copy
