"""Builds the site of the documentation. Needs the group `docs`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Warnings are errors, and all are shown: a link that leads nowhere, a page in no list. Each page is read
# again, since Sphinx does not repeat the warnings of one that has not changed.
STRICT = ("--fail-on-warning", "--keep-going", "--quiet", "--fresh-env")


def build(folder: Path, read: Path) -> subprocess.CompletedProcess[str]:
    """Write the site into `folder`, without pages of an earlier one, and what Sphinx has read into `read`."""
    shutil.rmtree(folder, ignore_errors=True)
    places = ("-c", str(ROOT / "docs"), "-d", str(read), str(ROOT), str(folder))
    command = [sys.executable, "-m", "sphinx", "-b", "html", *STRICT, *places]
    return subprocess.run(command, cwd=ROOT, check=False, text=True, stderr=subprocess.PIPE)
