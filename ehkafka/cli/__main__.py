"""Entry point of the `ehkafka` command; also `python -m ehkafka.cli`.

Must import without the extra `[cli]`: this file and the package above it import nothing of it at the top.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import NoReturn

from ehkafka.wording.extras import install

# What the extra brings. A missing module of another name is a broken installation and shows as it is.
EXTRA = ("typer", "rich", "pydantic", "pydantic_settings")


def main() -> None:
    """Run the command line and exit with its code."""
    if "run" not in sys.argv or not any(word.startswith("--members") for word in sys.argv):
        _main()
        return
    from ehkafka.members.commands import StoppedEarly, caught_early  # noqa: PLC0415 - `run` with members alone

    # The import of the app may take seconds.
    try:
        with caught_early():
            _main()
    except StoppedEarly:
        sys.exit(0)


def _main() -> None:
    _open_closed_streams()
    # Each of these is loaded where it is needed; a command that needs one must not find out half-way.
    if not all(map(importlib.util.find_spec, EXTRA)):
        _leave()
    try:
        from ehkafka.cli.commands import cli  # noqa: PLC0415 - typer may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in EXTRA:
            raise
        _leave()
    cli(prog_name="ehkafka")


def _open_closed_streams() -> None:
    # Python has None for a stream that its starter closed, and a connection could get the stream's number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - until the process ends


def _leave() -> NoReturn:
    sys.stderr.write(
        f"ehkafka: the command needs the extra [cli], which is not installed. Run: {install('cli')}\n"
    )
    sys.exit(2)


if __name__ == "__main__":
    main()
