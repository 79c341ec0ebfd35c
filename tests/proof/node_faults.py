"""What befalls the brokers of a run. After each fault all replicas are in sync before the next one begins.

Called by one thread; others ask whether clients may still feel the last one.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence


# The name of the client whose connections go by proxies: the first member of each level.
CLIENT = "far"
AWAY_S, FROZEN_S, CUT_S, CUT_OFF_S, SLOW_S = (0.5, 4.0), (2.0, 7.0), (2.0, 8.0), (3.0, 8.0), (3.0, 8.0)
SLOW_BY_S = (0.02, 0.25)
STEPPED_S = (1.0, 5.0)
CLOCK_S = (-3600.0, -5.0, 5.0, 3600.0)
COMMITS = "__consumer_offsets"
# So long after it was frozen or cut off a node that has led may answer as if it led still, and so long after
# leaders were moved.
STALE_S, MOVED_S = 5.0, 1.0
IN_SYNC_S = 90.0


class NodeFaults:
    """Lets nodes fail, never two at once but where the fault says so."""

    def __init__(self, cluster: Any, topics: Sequence[str], dice: random.Random) -> None:
        self.cluster, self._topics, self._dice = cluster, topics, dice
        # How often a fault took a node from its clients.
        self.counts = 0
        self.leaders_moved = 0
        self._back_s = self._calm_s = -math.inf
        # Of each number of a partition of commits, when a fault ended at the node that led it.
        self._commits_back_s: dict[int, float] = {}
        self._partitions_of_commits = 1

    def recovers(self, within_s: float) -> bool:
        """Tell whether a fault lasts, or has ended so short a while ago."""
        return time.monotonic() - self._back_s < within_s

    def is_whole(self) -> bool:
        """Tell whether all nodes are there."""
        return self._back_s != math.inf and self.is_calm()

    def coordinator_back_s(self, group: str) -> float:
        """Return when the last fault ended at the node that coordinated a group then; inf while it lasts."""
        number = hash_of(group) % self._partitions_of_commits
        return self._commits_back_s.get(number, -math.inf)

    def is_calm(self) -> bool:
        """Tell whether no node can answer that does not know that another one leads."""
        return len(self.cluster.nodes) == 1 or time.monotonic() > self._calm_s

    def faults(self) -> dict[str, Callable[[], object]]:
        """Return the faults by their names."""
        return {
            "broker-kill": lambda: self._kill(self._any()),
            "broker-freeze": lambda: self._freeze(self._any()),
            "broker-restart": lambda: self._restart(self._any()),
            "controller-kill": lambda: self._kill(self.cluster.controller()),
            "controller-freeze": lambda: self._freeze(self.cluster.controller()),
            "two-away": self._kill_two,
            "leaders": self._move_leaders,
            "cut-client": self._cut_client,
            "cut-off": self._cut_off,
            "slow": self._slow,
            "broker-clock": self._step_clock,
        }

    @contextmanager
    def _away(self, nodes: Sequence[Any], stale_s: float = 0.0) -> Iterator[None]:
        """Mark the time in which clients lack these nodes, and wait until they have caught up.

        Until then, and for `stale_s` longer, they may say what is no longer so.
        """
        self.counts += 1
        coordinated = self._coordinated_by(nodes)
        self._commits_back_s |= dict.fromkeys(coordinated, math.inf)
        self._back_s = math.inf
        self._calm_s = math.inf if stale_s else self._calm_s
        try:
            yield
            self.cluster.wait_until_in_sync(IN_SYNC_S)
        finally:
            self._back_s = time.monotonic()
            self._commits_back_s |= dict.fromkeys(coordinated, self._back_s)
            self._calm_s = self._back_s + stale_s if stale_s else self._calm_s

    def _coordinated_by(self, nodes: Sequence[Any]) -> list[int]:
        """Return the partitions of commits that these nodes lead: they coordinate the groups of these."""
        if len(self.cluster.nodes) == 1:
            return [0]
        numbers = {node.number for node in nodes}
        partitions = self.cluster.controller().state().partitions
        leaders = {number: one.leader for (topic, number), one in partitions.items() if topic == COMMITS}
        self._partitions_of_commits = max(1, len(leaders))
        return [number for number, leader in leaders.items() if leader in numbers]

    def _any(self) -> Any:
        return self._dice.choice(self.cluster.nodes)

    def _kill(self, node: Any) -> None:
        with self._away([node]):
            node.kill()
            time.sleep(self._dice.uniform(*AWAY_S))
            node.restart()

    def _freeze(self, node: Any) -> None:
        with self._away([node], STALE_S):
            node.suspend()
            time.sleep(self._dice.uniform(*FROZEN_S))
            node.resume()

    def _restart(self, node: Any) -> None:
        with self._away([node]):
            node.restart()

    def _kill_two(self) -> None:
        """Nothing can be written then, and no group has a coordinator; but nothing is lost."""
        nodes = self._dice.sample([*self.cluster.nodes], 2)
        with self._away(nodes):
            for node in nodes:
                node.kill()
            time.sleep(self._dice.uniform(*AWAY_S))
            for node in nodes:
                node.restart(wait=False)

    def _move_leaders(self) -> int:
        """Return how many have moved: none, and it was no fault."""
        with self._away(self.cluster.nodes, MOVED_S):
            moved: int = self.cluster.move_leaders(self._topics)
        self.leaders_moved += moved
        return moved

    def _cut_client(self) -> None:
        node = self._any()
        with self._away([node]):
            self.cluster.cut(CLIENT, node)
            time.sleep(self._dice.uniform(*CUT_S))
            self.cluster.heal(CLIENT, node)

    def _cut_off(self) -> None:
        """The other nodes go on without it, and clients can still ask it."""
        node = self._any()
        with self._away([node], STALE_S):
            self.cluster.cut_off(node)
            time.sleep(self._dice.uniform(*CUT_OFF_S))
            self.cluster.heal()

    def _slow(self) -> None:
        node = self._any()
        self.cluster.slow(node, self._dice.uniform(*SLOW_BY_S))
        time.sleep(self._dice.uniform(*SLOW_S))
        self.cluster.heal()

    def _step_clock(self) -> None:
        """For some seconds: what has a time-out, such as a transaction, is over for this node at once."""
        node, by_s = self._any(), self._dice.choice(CLOCK_S)
        with self._away([node]):
            self.cluster.step_clock(node, by_s)
            time.sleep(self._dice.uniform(*STEPPED_S))
            self.cluster.step_clock(node, -by_s)


def hash_of(name: str) -> int:
    """Return Java's hash of an ASCII text without its sign, by which Kafka finds a group's coordinator."""
    number = 0
    for character in name:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return 0 if signed == -(1 << 31) else abs(signed)
