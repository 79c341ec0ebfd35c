"""What one run is asked for on its command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tests.proof.by_hand import BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MODES = ("at-least-once", "exactly-once")
PROTOCOLS = ("classic", "mixed", "consumer")
WORKERS = {"threads": 16, "tasks": 16, "batches": 4, "processes": 2}
BY_HAND = ("plain", "drop-in")
MEMBER_FAULTS = ("kill", "stop", "roll", "member-freeze", "member-clock", "rebalance")
NODE_FAULTS = ("broker-kill", "broker-freeze", "broker-restart")
OF_THREE = (
    "controller-kill",
    "controller-freeze",
    "leaders",
    "cut-client",
    "cut-off",
    "slow",
    "broker-clock",
    "two-away",
)
DEFAULT = ("kill", "stop", "roll", "member-freeze", "rebalance", "broker-kill", "broker-freeze")
# Between two faults of members, and of nodes.
PAUSE_S, NODE_PAUSE_S = (0.3, 2.0), (2.0, 6.0)


def parse(description: str | None, arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    faults = (*MEMBER_FAULTS, *NODE_FAULTS, *OF_THREE)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--levels", type=int, default=1, help="groups, each of which reads what one writes")
    parser.add_argument("--mode", type=of(MODES), default=[MODES[0]], help="of each level, in turn")
    parser.add_argument("--kind", type=of((*WORKERS, *BY_HAND)), default=["threads"], help="of each member")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="classic", help="mixed: consumer by hand")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are injected")
    parser.add_argument("--kills", type=int, help="faults end after so many, too")
    parser.add_argument("--pause", type=seconds, default=PAUSE_S, help="between members' faults, as 0.3,2")
    parser.add_argument("--node-pause", type=seconds, default=NODE_PAUSE_S, help="between nodes' faults")
    parser.add_argument("--settle", type=float, default=180.0, help="seconds until all is committed then")
    parser.add_argument("--faults", type=of(faults), default=[*DEFAULT])
    parser.add_argument("--members", type=int, default=3, help="of each level")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--rate", type=float, default=200.0, help="records of the first level in a second")
    parser.add_argument("--backlog", type=int, default=0, help="records that are there at the start")
    parser.add_argument("--refused-every", type=int, default=500, help="one output in so many; 0: none")
    parser.add_argument("--sleep-share", type=float, default=1.0, help="of the calls; others end at once")
    parser.add_argument("--limit", type=int, default=200_000, help="max.message.bytes of the output topics")
    parser.add_argument("--metadata-bytes", type=int, help="room in a commit's metadata")
    parser.add_argument("--static", action="store_true", help="each member has an instance id of its own")
    parser.add_argument(
        "--cooperative", action="store_true", help="partitions move by the cooperative protocol"
    )
    parser.add_argument("--repeats-max", type=int, help="how many are no violation at least once")
    parser.add_argument("--strict", action="store_true", help="failed attempts send, which no reader may see")
    parser.add_argument("--broken", type=of(BROKEN), default=[], help="what each level's members break")
    asked = parser.parse_args(arguments)
    if problem := problem_of(asked):
        parser.error(problem)
    return asked


def problem_of(asked: argparse.Namespace) -> str:
    """Return what does not go together."""
    apps, by_hand = {*asked.kind} & {*WORKERS}, {*asked.kind} & {*BY_HAND}
    wrong = {*asked.faults} & {*OF_THREE} if asked.brokers == 1 else set()
    problems = {
        f"{', '.join(sorted(wrong))}: not with one broker": bool(wrong),
        "an App joins by the classic protocol alone: --protocol consumer is for plain and drop-in": (
            asked.protocol == "consumer" and bool(apps)
        ),
        "Apache Kafka lets no `consumer` member into a group of cooperative-sticky members": (
            asked.protocol == "mixed" and asked.cooperative
        ),
        "a loop by hand works at least once": (MODES[1] in asked.mode and bool(by_hand) and not asked.broken),
        "only loops by hand are broken": bool(asked.broken) and bool(apps),
    }
    return next((problem for problem, is_there in problems.items() if is_there), "")


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
