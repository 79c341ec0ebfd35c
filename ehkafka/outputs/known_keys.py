"""Which keys a client may be given more of: those whose first output by it is acknowledged.

The sender's thread only; no client. A broker takes any sequence number as a producer's first one in
a partition: where its first request there is refused, the next one, which the client has ready by then, would
pass it. Later ones do not, their numbers would leave a gap. So the second output of a key waits until the
first one is acknowledged; from then on all go at once.

A broker that has had nothing of a producer in a partition for long forgets it there (Kafka's
`producer.id.expiration.ms`, a day if nobody sets it), and takes any number as the first one again. So an
acknowledgement counts for some minutes only.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Past so many keys all are forgotten, and each waits for one acknowledgement more.
KEYS_MAX: Final = 50_000
# Far below what brokers remember.
COUNTS_S: Final = 600.0


class KnownKeys:
    """Of one client; `forget` when the next one takes over."""

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        """`wall_s` is a clock that goes on while the machine sleeps, as the broker's does."""
        self._wall_s = wall_s
        self._since_s = wall_s()
        # By topic: keys, or keys with the partition where an output names one. None stands for all outputs
        # without either, whose order is not promised.
        self._known: defaultdict[str, set[object]] = defaultdict(lambda: {None})
        # Whose first output is under way.
        self._first: set[tuple[str, object]] = set()
        self._count = 0

    def are_known(self, topic: str, keys: Iterable[object]) -> bool:
        """Tell whether outputs of all these keys may go at once."""
        return self._known[topic].issuperset(keys)

    def may_go(self, topic: str, key: object) -> bool:
        """Tell whether an output may go; if so it may be the first one of its key."""
        if key in self._known[topic]:
            return True
        if (topic, key) in self._first:
            return False
        self._first.add((topic, key))
        return True

    def is_first_under_way(self) -> bool:
        """Tell whether an acknowledgement would let more outputs go."""
        return bool(self._first)

    def acknowledged(self, topic: str, key: object) -> None:
        """Note that an output is acknowledged."""
        if (topic, key) in self._first:
            self._first.discard((topic, key))
            self._note(topic, key)

    def all_acknowledged(self) -> None:
        """Note that all outputs are that went by this client."""
        for topic, key in self._first:
            self._note(topic, key)
        self._first.clear()

    def _note(self, topic: str, key: object) -> None:
        if self._count >= KEYS_MAX:
            self._known.clear()
            self._count = 0
        self._known[topic].add(key)
        self._count += 1

    @property
    def are_old(self) -> bool:
        """Tell whether what is known counts no more: forget it once nothing is under way."""
        return abs(self._wall_s() - self._since_s) >= COUNTS_S

    def forget(self) -> None:
        """Begin anew: another client, or the broker may have forgotten this one."""
        self._since_s = self._wall_s()
        self._known.clear()
        self._first.clear()
        self._count = 0
