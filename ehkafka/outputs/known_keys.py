"""Which keys a client may be given more of: those whose first output by it is acknowledged.

The sender's thread only; no client. A broker takes any sequence number as a producer's first one in
a partition: where its first request there is refused, the next one, which the client has ready by then, would
pass it. Later ones do not, their numbers would leave a gap. So the second output of a key waits until the
first one is acknowledged; from then on all go at once.

A broker that has had nothing of a producer in a partition for long forgets it there (Kafka's
`producer.id.expiration.ms`, a day by default), and takes any number as the first one again. So an
acknowledgement counts for some minutes only.

It also says to which partition a key goes, so that later outputs of it can be sent together with others to
the same one. They go there for as long as it counts, also where the topic is given more partitions meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ehkafka.outputs.batch import Batch
    from ehkafka.outputs.output import Output

# Past so many new keys the older ones are forgotten, and each waits for one acknowledgement more.
KEYS_MAX: Final = 20_000
# An acknowledgement counts for so long, and for twice as long at most: far below what brokers remember.
COUNTS_S: Final = 600.0


class KnownKeys:
    """Of one client; `forget` when the next one takes over."""

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        """`wall_s` is a clock that goes on while the machine sleeps, as the broker's does."""
        self._wall_s = wall_s
        self._looked_s = wall_s()
        # By topic: to which partition each key went, since the last half was forgotten; how many of them; and
        # those before. A key with a number: of outputs that name it.
        self._known: dict[str, dict[object, int]] = {}
        self._count = 0
        self._known_before: dict[str, dict[object, int]] = {}
        # Whose first output is under way.
        self._first: set[tuple[str, object]] = set()
        # What was under way at the last look.
        self._sent_before: frozenset[Batch] = frozenset()

    def partitions(self, topic: str, keys: Sequence[object]) -> list[int | None]:
        """Return where each of these keys goes; None where that is not known."""
        found: list[int | None] = list(map(self._known.get(topic, {}).get, keys))
        if None in found and (before := self._known_before.get(topic)):
            found = [before.get(key) if one is None else one for key, one in zip(keys, found, strict=True)]
        return found

    def may_go(self, output: Output) -> bool:
        """Tell whether an output may go; if so it may be the first one of its key."""
        place = output.place
        if place is None or self.partition(output) is not None:
            return True
        if (output.topic, place) in self._first:
            return False
        self._first.add((output.topic, place))
        return True

    def is_first(self, output: Output) -> bool:
        """Tell whether it is the first one of its key, and under way."""
        return (output.topic, output.place) in self._first

    def partition(self, output: Output) -> int | None:
        """Return where its key's outputs go; None where that is not known."""
        topic, place = output.topic, output.place
        known = self._known.get(topic, {}).get(place)
        return self._known_before.get(topic, {}).get(place) if known is None else known

    def acknowledged(self, output: Output, partition: int | None) -> None:
        """Note that the first output of a key is acknowledged; None: it never went."""
        self._first.discard((output.topic, output.place))
        if partition is None:
            return
        self._known.setdefault(output.topic, {})[output.place] = partition
        self._count += 1

    @property
    def is_full(self) -> bool:
        """Tell whether the older half is to be forgotten."""
        return self._count >= KEYS_MAX

    @property
    def is_old(self) -> bool:
        """Tell whether the older half counts no more."""
        return abs(self._wall_s() - self._looked_s) >= COUNTS_S

    def forget_half(self) -> None:
        """Let the older half of all keys count no more."""
        self._known_before, self._known, self._count = self._known, {}, 0

    def forget_old(self, sent: Collection[Batch]) -> bool:
        """Let what is old count no more; True: outputs are under way that were sent on the word of such.

        They may meet a broker that has forgotten their producer, so that another one is needed.
        """
        has_slept = abs(self._wall_s() - self._looked_s) >= 2 * COUNTS_S
        self._looked_s = self._wall_s()
        self.forget_half()
        before, self._sent_before = self._sent_before, frozenset(sent)
        if has_slept:
            self._known_before = {}
        return bool(sent) if has_slept else not before.isdisjoint(sent)

    def forget(self) -> None:
        """Begin anew, with another client."""
        self._sent_before = frozenset()
        self._known_before.clear()
        self._known.clear()
        self._first.clear()
        self._count = 0
