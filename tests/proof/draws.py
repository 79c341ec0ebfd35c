"""What a seed stands for: modes, members, faults and their frequency, drawn for one run of a chain.

The first seeds go through what must be tried in any case: each mode, each protocol, static members.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.proof.options import MEMBER_FAULTS, MODES, NODE_FAULTS, OF_THREE

LEVELS = 3
AT_LEAST_ONCE, EXACTLY_ONCE = MODES
# Each as often as the others, in turn: the mode of each level.
TURNS = ((EXACTLY_ONCE,), (AT_LEAST_ONCE,), (EXACTLY_ONCE,), (AT_LEAST_ONCE, EXACTLY_ONCE))
KINDS = ("threads", "tasks", "batches", "processes")
# At least once, in turn: apps, perhaps with a member by hand; by KIP-848 members by hand alone; both of them.
PROTOCOLS = ("classic", "consumer", "mixed")
BY_HAND_SHARE, STATIC_SHARE = 0.5, 0.25
# A refused output lets its batch's keys go one by one, each of which waits for all replicas; and a stop just
# then may leave work, which must not be so at most stops.
REFUSED_EVERY = {1: (2000, 8000), 3: (15_000, 50_000)}
SETTLE_S = 400
# How often a fault is named, which is how often it comes.
WEIGHTS = {"kill": (2, 4), "stop": (1, 2), "roll": (0, 1), "member-freeze": (1, 1), "member-clock": (1, 1)}
NODE_WEIGHTS = {"broker-kill": (1, 2), "leaders": (1, 3), "two-away": (0, 1)}
# Kafka 4.2 keeps no transaction whole while two of three brokers are away: one that comes back as transaction
# coordinator acts on a decision that no other broker has. It commits a part of the transaction, and the next
# coordinator, whose log lacks the decision, aborts the rest (seed 2, 600 s: offsets without outputs). So that
# fault comes in all other runs on three brokers, and in none of these.
UNSAFE_EXACTLY_ONCE = ["two-away"]


class Draw(NamedTuple):
    """The command line of a run."""

    seed: int
    brokers: int
    seconds: float
    rate: float
    members: int

    def arguments(self) -> list[str]:
        """Return the options of `tests.proof.run`."""
        dice = random.Random(self.seed)
        modes = TURNS[self.seed % len(TURNS)]
        turn = self.seed // len(TURNS) % len(PROTOCOLS)
        protocol = PROTOCOLS[turn] if modes == (AT_LEAST_ONCE,) else "classic"
        two_away = [] if EXACTLY_ONCE in modes or self.brokers == 1 else UNSAFE_EXACTLY_ONCE
        options = [*self._members(dice, modes, protocol), *self._faults(dice, two_away)]
        shape = {
            "brokers": self.brokers,
            "levels": LEVELS,
            "mode": ",".join(modes),
            "members": self.members,
            "seed": self.seed,
            "seconds": self.seconds,
            "rate": self.rate,
            "keys": dice.choice((50, 200, 1000)),
            "sleep-share": dice.choice((0.1, 0.2)),
            "refused-every": dice.choice(REFUSED_EVERY[self.brokers]),
            "settle": SETTLE_S,
        }
        return [*(text for name, value in shape.items() for text in (f"--{name}", str(value))), *options]

    def _members(self, dice: random.Random, modes: tuple[str, ...], protocol: str) -> list[str]:
        kinds = dice.sample(KINDS, self.members)
        if protocol == "consumer":
            kinds = ["plain", "drop-in"]
        elif protocol == "mixed" or (modes == (AT_LEAST_ONCE,) and dice.random() < BY_HAND_SHARE):
            kinds[-1] = dice.choice(("plain", "drop-in"))
        options = ["--kind", ",".join(kinds), "--protocol", protocol]
        options += ["--static"] if dice.random() < STATIC_SHARE else []
        is_cooperative = protocol != "consumer" and dice.random() < 0.5
        # Kafka never moves such a group to the new protocol: see `problem_of`.
        options += ["--cooperative"] if is_cooperative and protocol != "mixed" else []
        options += ["--strict"] if EXACTLY_ONCE in modes and dice.random() < 0.5 else []
        options += ["--metadata-bytes", "64"] if dice.random() < 0.5 else []
        return options

    def _faults(self, dice: random.Random, two_away: list[str]) -> list[str]:
        names = [name for name in MEMBER_FAULTS if name not in WEIGHTS]
        weights = dict(WEIGHTS)
        if self.brokers > 1:
            # What is slow or away is the brokers' matter; a fault in four is left out, another one each time.
            weights |= NODE_WEIGHTS
            others = [name for name in (*NODE_FAULTS, *OF_THREE) if name not in NODE_WEIGHTS]
            names += dice.sample(others, len(others) * 3 // 4)
        else:
            names += NODE_FAULTS
        names += [name for name, (least, most) in weights.items() for _ in range(dice.randint(least, most))]
        member_pause = dice.choice(("1,4", "2,8"))
        return [
            "--faults",
            ",".join([*(name for name in names if name not in UNSAFE_EXACTLY_ONCE), *two_away]),
            "--pause",
            member_pause,
            "--node-pause",
            dice.choice(("2,6", "4,12")),
        ]
