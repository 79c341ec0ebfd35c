"""What `output_checker` is asked for on its command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tests.integration.output_member import BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FAULTS = ("kill", "stop", "roll", "member-freeze", "broker-kill", "broker-freeze", "rebalance")
# The broker stops in good order; connections are closed; or all producers are forgotten, at least once only.
MORE_FAULTS = ("broker-restart", "cut", "forget")
WORKERS = {"threads": 16, "tasks": 16, "batches": 4, "processes": 2}
# Between two faults.
PAUSE_S = 0.3, 2.0


def parse(description: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=("at-least-once", "exactly-once"), default="at-least-once")
    parser.add_argument("--kind", type=of(WORKERS), default=["threads"], help="of each member, in turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are injected")
    parser.add_argument("--kills", type=int, help="faults end after so many, too")
    parser.add_argument("--pause", type=seconds, default=PAUSE_S, help="seconds between faults, as 0.3,2")
    parser.add_argument("--settle", type=float, default=180.0, help="seconds until all is committed then")
    parser.add_argument("--faults", type=of((*FAULTS, *MORE_FAULTS)), default=[*FAULTS])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--rate", type=float, default=200.0, help="records in a second")
    parser.add_argument("--backlog", type=int, default=0, help="records that are there at the start")
    parser.add_argument("--refused-every", type=int, default=500, help="one output in so many; 0: none")
    parser.add_argument("--sleep-share", type=float, default=1.0, help="of the calls; others end at once")
    parser.add_argument("--limit", type=int, default=200_000, help="max.message.bytes of the output topic")
    parser.add_argument("--metadata-bytes", type=int, help="commit_metadata_bytes_max")
    parser.add_argument("--static", action="store_true", help="each member has an instance id of its own")
    parser.add_argument("--repeats-max", type=int, help="how many are no violation at least once")
    parser.add_argument("--strict", action="store_true", help="failed attempts send, which no reader may see")
    parser.add_argument("--broken", type=of(BROKEN), default=[], help="what members break on purpose")
    return parser.parse_args(arguments)


def of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what reads names with commas between them; `none` is no name."""

    def read(text: str) -> list[str]:
        found = [] if text == "none" else text.split(",")
        if unknown := {*found} - {*names}:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(names)}")
        return found

    return read


def seconds(text: str) -> tuple[float, float]:
    """Read the shortest and the longest."""
    least, most = map(float, text.split(","))
    return least, most
