"""How to install what an extra brings.

By the names of the packages themselves, since `ehkafka` is on no package index: whatever is found under that
name there is not ours.
"""

from __future__ import annotations

import re
import shlex


def install(extra: str) -> str:
    """Return the command, by the metadata of the installed package; where there is none, name the extra."""
    from importlib import metadata  # noqa: PLC0415 - it loads much, and a missing extra is rare

    try:
        required = metadata.requires("ehkafka") or []
    except metadata.PackageNotFoundError:  # imported out of a folder
        required = []
    is_its_own = re.compile(rf"""extra == ['"]{extra}['"]""")
    packages = [one.partition(";")[0].strip() for one in required if is_its_own.search(one)]
    return f"pip install {shlex.join(packages)}" if packages else f"install the extra [{extra}]"
