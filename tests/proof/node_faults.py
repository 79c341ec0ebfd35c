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


# The name of the client whose connections go by proxies: the first member of each level, and all the members
# where the proxy is the fault.
CLIENT = "far"
AWAY_S, FROZEN_S, CUT_S, CUT_OFF_S, SLOW_S = (0.5, 4.0), (2.0, 7.0), (2.0, 8.0), (3.0, 8.0), (3.0, 8.0)
SLOW_BY_S = (0.02, 0.25)
STEPPED_S = (1.0, 5.0)
CLOCK_S = (-3600.0, -5.0, 5.0, 3600.0)
# A stop that ends so soon after a fault of a broker may leave work, and its exit code says so.
RECOVERS_S = 20.0
# So long after it was frozen or cut off a node that has led may answer as if it led still, and so long after
# leaders were moved.
STALE_S, MOVED_S = 5.0, 1.0
IN_SYNC_S = 90.0
# OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID
FORGOTTEN = (45, 47, 49, 59)


class NodeFaults:
    """Lets nodes fail, never two at once but where the fault says so."""

    def __init__(self, cluster: Any, topics: Sequence[str], dice: random.Random) -> None:
        self.cluster, self._topics, self._dice = cluster, topics, dice
        # How often a fault took a node from its clients.
        self.counts = 0
        self.leaders_moved = 0
        self._back_s = self._calm_s = -math.inf

    def recovers(self) -> bool:
        """Tell whether a fault lasts or has ended a short while ago."""
        return time.monotonic() - self._back_s < RECOVERS_S

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
            "cut": self._cut,
            "forget": lambda: self.cluster.proxy.forget(self._dice.choice(FORGOTTEN)),
        }

    @contextmanager
    def _away(self, stale_s: float = 0.0) -> Iterator[None]:
        """Mark the time in which clients lack a node, and wait until it has caught up.

        Until then, and for `stale_s` longer, it may say what is no longer so.
        """
        self.counts += 1
        self._back_s = math.inf
        self._calm_s = math.inf if stale_s else self._calm_s
        try:
            yield
            self.cluster.wait_until_in_sync(IN_SYNC_S)
        finally:
            self._back_s = time.monotonic()
            self._calm_s = self._back_s + stale_s if stale_s else self._calm_s

    def _any(self) -> Any:
        return self._dice.choice(self.cluster.nodes)

    def _kill(self, node: Any) -> None:
        with self._away():
            node.kill()
            time.sleep(self._dice.uniform(*AWAY_S))
            node.restart()

    def _freeze(self, node: Any) -> None:
        with self._away(STALE_S):
            node.suspend()
            time.sleep(self._dice.uniform(*FROZEN_S))
            node.resume()

    def _restart(self, node: Any) -> None:
        with self._away():
            node.restart()

    def _kill_two(self) -> None:
        """Nothing can be written then, and no group has a coordinator; but nothing is lost."""
        with self._away():
            nodes = self._dice.sample([*self.cluster.nodes], 2)
            for node in nodes:
                node.kill()
            time.sleep(self._dice.uniform(*AWAY_S))
            for node in nodes:
                node.restart(wait=False)

    def _move_leaders(self) -> None:
        with self._away(MOVED_S):
            self.leaders_moved += self.cluster.move_leaders(self._topics)

    def _cut_client(self) -> None:
        node = self._any()
        with self._away():
            self.cluster.cut(CLIENT, node)
            time.sleep(self._dice.uniform(*CUT_S))
            self.cluster.heal(CLIENT, node)

    def _cut_off(self) -> None:
        """The other nodes go on without it, and clients can still ask it."""
        node = self._any()
        with self._away(STALE_S):
            self.cluster.cut_off(node)
            time.sleep(self._dice.uniform(*CUT_OFF_S))
            self.cluster.heal()

    def _cut(self) -> None:
        self.cluster.proxy.cut()

    def _slow(self) -> None:
        node = self._any()
        self.cluster.slow(node, self._dice.uniform(*SLOW_BY_S))
        time.sleep(self._dice.uniform(*SLOW_S))
        self.cluster.heal()

    def _step_clock(self) -> None:
        """For some seconds: what has a time-out, such as a transaction, is over for this node at once."""
        node, by_s = self._any(), self._dice.choice(CLOCK_S)
        with self._away():
            self.cluster.step_clock(node, by_s)
            time.sleep(self._dice.uniform(*STEPPED_S))
            self.cluster.step_clock(node, -by_s)
