#!/usr/bin/env python3
"""Home security, all of it, by one command; it needs the extras [spark,web] and ends by Ctrl-C.

    python examples/home_security/run.py                     Spark counts
    python examples/home_security/run.py --engine local      an ehkafka app counts; a button starts a second

`scripts/home_security` does the same and installs what is missing.

A broker, Azurite (the first run fetches it by npm), a simulator of 100 000 homes, the engine and the page are
started here, all on 127.0.0.1; nothing goes to another machine. What dies is started again. A new kind of
sensor is sold after a minute, one more when a button of the page is pressed. At the end the numbers on the
page are compared with the simulator's ledger.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""
NEEDED = ("ehkafka", "starlette", "uvicorn")
NEEDED_BY_SPARK = ("pyspark", "pyarrow", "pandas")
WINDOWS_S = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
"""So that a minute, which is what the page shows of a home, is whole windows."""


def main() -> int:
    """Say what is missing, or run until Ctrl-C; return the exit code."""
    options = arguments().parse_args()
    needed = (*NEEDED, *NEEDED_BY_SPARK) if options.engine == "spark" else NEEDED
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        extras = "spark,web" if options.engine == "spark" else "web"
        print(
            f"not installed: {', '.join(missing)}. Run: {sys.executable} -m pip install "
            f"'{Path(__file__).parents[2]}[{extras}]', or scripts/home_security, which installs it",
            file=sys.stderr,
        )
        return 2
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # `tests.kit` starts Azurite
    try:
        from home_pipeline.show import show  # noqa: PLC0415 - imports what was looked for above

        return show(options)
    except KeyboardInterrupt:
        print("stopped; the numbers were not compared", file=sys.stderr)
        return INTERRUPTED


def arguments() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--homes", type=whole(1, 1_000_000), default=100_000, metavar="N")
    parser.add_argument(
        "--rate", type=whole(1, 1_000_000), default=2_000, metavar="N", help="readings a second"
    )
    parser.add_argument(
        "--port", type=whole(0, 65_535), default=8350, metavar="N", help="of the page; 0 takes a free one"
    )
    parser.add_argument(
        "--window-s", type=int, choices=WINDOWS_S, default=10, metavar="S", help="how finely time is cut"
    )
    parser.add_argument(
        "--keep-s",
        type=whole(180, 86_400),
        default=86_400,
        metavar="S",
        help="how much of the past is kept and shown",
    )
    parser.add_argument("--new-sensor-after", type=float, default=60.0, metavar="S")
    parser.add_argument(
        "--second-after", type=float, metavar="S", help="--engine local: start a second process by itself"
    )
    parser.add_argument("--seconds", type=float, default=0.0, metavar="S", help="end by itself, then check")
    return parser


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return what reads a whole number within bounds."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"a whole number from {least} to {most}, not {text!r}")
        return number

    return read


if __name__ == "__main__":
    sys.exit(main())
