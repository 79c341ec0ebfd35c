"""The keys whose first output by this client is acknowledged: only these may have several outputs in flight.

The sender's thread only; no client. A broker accepts any sequence number in the first request of a producer
to a partition. If that request is refused, the next one, which the client has already prepared, would be
written before it. Later requests cannot pass each other, because their numbers would leave a gap. So the
second output of a key waits until the first one is acknowledged; after that its outputs are sent at once.

A broker forgets a producer that has sent nothing to a partition for long (Kafka's
`producer.id.expiration.ms`, a day by default), and then accepts any number again. So an acknowledgement
counts for some minutes only.

An acknowledgement also tells the partition of a key, so that its later outputs can be sent in one batch with
others. They go to that partition for as long as the acknowledgement counts, even if the topic gets more
partitions meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ehkafka.outputs.batch import OutputBatch
    from ehkafka.outputs.output import Output

# With more new keys than this the older half is forgotten: each of those waits for one acknowledgement more.
KEYS_MAX: Final = 20_000
# An acknowledgement counts for this time, at most for twice this time: far less than brokers remember.
COUNTS_S: Final = 600.0


class KnownKeys:
    """The known keys of one client; `forget` when the next client takes over."""

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        """`wall_s` is a clock that goes on while the machine sleeps, as the broker's does."""
        self._wall_s = wall_s
        self._looked_s = wall_s()
        # By topic: the partition of each key acknowledged since the last half was forgotten; how many keys
        # these are; and the older half. A key with a number: of outputs that name their partition.
        self._known: dict[str, dict[object, int]] = {}
        self._count = 0
        self._known_before: dict[str, dict[object, int]] = {}
        # Topics and keys whose first output is in flight.
        self._first: set[tuple[str, object]] = set()
        # The batches in flight at the last look.
        self._sent_before: frozenset[OutputBatch] = frozenset()

    def partitions(self, topic: str, keys: Sequence[object]) -> list[int | None]:
        """Return the partition of each of these keys; None for a key that is not known."""
        found: list[int | None] = list(map(self._known.get(topic, {}).get, keys))
        if None in found and (before := self._known_before.get(topic)):
            found = [before.get(key) if one is None else one for key, one in zip(keys, found, strict=True)]
        return found

    def may_go(self, output: Output) -> bool:
        """Tell whether an output of an unknown key may be sent: then it is its key's first output."""
        place = output.place
        if place is None:
            return True
        if (output.topic, place) in self._first:
            return False
        self._first.add((output.topic, place))
        return True

    def partition(self, output: Output) -> int | None:
        """Return the partition of its key's outputs; None if that is not known."""
        topic, place = output.topic, output.place
        known = self._known.get(topic, {}).get(place)
        return self._known_before.get(topic, {}).get(place) if known is None else known

    def acknowledged(self, output: Output, partition: int | None) -> None:
        """Note that the first output of a key is acknowledged; partition None: it was never sent."""
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

    def forget_half(self, sent: Iterable[Output] = ()) -> None:
        """Let the older half of all keys count no more, except keys of what a client has.

        If the topic has another number of partitions by now, their next output could pass that one elsewhere.
        """
        kept = [(one, partition) for one in sent if (partition := self.partition(one)) is not None]
        self._known_before, self._known, self._count = self._known, {}, 0
        for output, partition in kept:
            self._known.setdefault(output.topic, {})[output.place] = partition

    def forget_old(self, sent: Collection[OutputBatch]) -> bool:
        """Drop acknowledgements that are too old; True: outputs in flight were sent because of one of them.

        Their broker may have forgotten the producer meanwhile, so another client is needed.
        """
        has_slept = abs(self._wall_s() - self._looked_s) >= 2 * COUNTS_S
        self._looked_s = self._wall_s()
        self.forget_half()
        before, self._sent_before = self._sent_before, frozenset(sent)
        if has_slept:
            self._known_before = {}
        return bool(sent) if has_slept else not before.isdisjoint(sent)

    def forget(self) -> None:
        """Forget all keys: another client takes over."""
        self._sent_before = frozenset()
        self._known_before.clear()
        self._known.clear()
        self._first.clear()
        self._count = 0
