"""The browser that the page's tests look through: the machine's own, else Debian's if it can be installed.

Standard library only; runs before the tests. A machine where Chromium is missing and cannot be installed by
`apt-get` (no root, another system) runs everything else: the page's tests then skip and say so. In CI they
may not. apt itself holds what it downloads to the signed digests of its package lists.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import _environment

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y")


def set_up() -> dict[str, str]:
    """Install Chromium if it is missing; return the variables that the tests need to know."""
    if any(map(shutil.which, NAMES)):
        return {}
    if shutil.which("apt-get") and os.geteuid() == 0:
        hint = "the reason is above; install a Chromium or Chrome by hand, then run this again."
        _environment.step("package lists", [*INSTALL, "update"], hint)
        command: list[str | Path] = [*INSTALL, "install", "--no-install-recommends", "chromium"]
        _environment.step("Chromium", command, hint)
        return {}
    if os.environ.get("CI") == "true":
        raise _environment.SetUpError("There is no Chromium, and without root it cannot be installed here.")
    print("• no Chromium on this machine: the tests of the page will be skipped (apt install chromium)")
    return {"EHKAFKA_NO_BROWSER": "1"}
