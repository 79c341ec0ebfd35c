"""Which keys a producer may be given more of: those whose first output it has had an answer for.

The sender's thread only; no client. A broker takes any sequence number as a producer's first one in
a partition: where its first request there is refused, the next one, which the client has ready by then, would
pass it. Later ones do not, their numbers would leave a gap. So the second output of a key waits here until
the first one is acknowledged; from then on all go at once.

A broker that has had nothing of a producer in a partition for long forgets it there (Kafka's
`producer.id.expiration.ms`, a day if nobody sets it), and takes any number as the first one again. So answers
count for some minutes only.

An answer also says to which partition a key goes, so that later outputs of it can be sent together with
others to the same one. They go there for as long as the answer counts, also where the topic is given more
partitions meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ehkafka.outputs.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ehkafka.outputs.claim import Output

# Keys known to be answered for. Past that all are forgotten, and each waits for one answer more.
ANSWERED_MAX: Final = 20_000
# An answer counts for so long, and for twice as long at most: far below what brokers remember.
COUNTS_S: Final = 600.0


class FirstAnswers:
    """Of one producer; `forget` when the next one takes over."""

    def __init__(self, wall_s: Callable[[], float] = time.time, *, by_key: bool = True) -> None:
        """`wall_s` is a clock that goes on while the machine sleeps, as the broker's does.

        `by_key`: all of a key goes to one partition, so that an answer says which.
        """
        self._wall_s = wall_s
        self._by_key = by_key
        self._looked_s = wall_s()
        # By topic: to which partition each key went, and partitions that were chosen by number, since the
        # last look; how many of both; and those between that look and the one before.
        self._answered: dict[str, dict[object, int]] = {}
        self._count = 0
        self._answered_before: dict[str, dict[object, int]] = {}
        # What was on its way at the last look.
        self._sent_before: frozenset[Output | Bundle] = frozenset()
        # The first output of a key, which is under way, and what waits behind it.
        self._first: dict[object, Output] = {}
        self._waiting: dict[object, list[Output]] = {}

    def holds(self, output: Output) -> bool:
        """Take an output that must wait; False: it may go."""
        place: object = output.key if output.partition < 0 else output.partition
        if place is None or place in self._answered.get(output.topic, ()):
            return False
        if place in self._answered_before.get(output.topic, ()):
            return False
        group = output.group
        if self._first.setdefault(group, output) is output:
            output.is_first = True
            return False
        self._waiting.setdefault(group, []).append(output)
        return True

    def partitions(self, topic: str, keys: Sequence[bytes]) -> list[int | None]:
        """Return where each of these keys goes; None: no answer says it, and its outputs must ask `holds`."""
        if not self._by_key:
            return [None] * len(keys)
        found = list(map(self._answered.get(topic, {}).get, keys))
        if None in found and (before := self._answered_before.get(topic)):
            pairs = zip(keys, found, strict=True)
            return [before.get(key) if place is None else place for key, place in pairs]
        return found

    def partition(self, output: Output) -> int:
        """Return where an output goes: where it says, where its key's batches go, else as the key says."""
        if output.partition >= 0 or output.key is None:
            return output.partition
        (known,) = self.partitions(output.topic, (output.key,))
        return output.partition if known is None else known

    def forget_partitions(self, topic: str) -> None:
        """Let no answer of a topic count any more: one of its partitions is gone."""
        for answered in (self._answered, self._answered_before):
            answered.pop(topic, None)

    def not_taken(self, output: Output) -> None:
        """Note that an output never went: there will be no answer, and the next one is the first."""
        if self._first.get(output.group) is output:
            del self._first[output.group]

    def has_waiting(self, group: object) -> bool:
        """Tell whether outputs of a key wait."""
        return group in self._waiting

    def acknowledged(self, outputs: Sequence[Output | Bundle]) -> list[Output]:
        """Note answers; return what waited for them, each key's in its order."""
        released: list[Output] = []
        if not self._first:
            return released
        for output in outputs:
            group = output.group
            # An earlier one, of before its answers were forgotten, says nothing of the first one of now.
            if group is None or self._first.get(group) is not output:
                continue
            if self._count >= ANSWERED_MAX:
                self._answered.clear()
                self._count = 0
            topic, place = group
            assert not isinstance(output, Bundle)
            self._answered.setdefault(topic, {})[place] = output.written_to
            self._count += 1
            del self._first[group]
            released += self._waiting.pop(group, ())
        return released

    def forget_old(self, in_flight: Collection[Output | Bundle]) -> bool:
        """Let old answers count no more; True: outputs are on their way that were sent on the word of such.

        They may meet a broker that has forgotten their producer, so that another one is needed.
        """
        passed_s = abs(self._wall_s() - self._looked_s)
        if passed_s < COUNTS_S:
            return False
        self._looked_s = self._wall_s()
        has_slept = passed_s >= 2 * COUNTS_S
        self._answered_before = {} if has_slept else self._answered
        self._answered = {}
        self._count = 0
        before, self._sent_before = self._sent_before, frozenset(in_flight)
        return bool(in_flight) if has_slept else not before.isdisjoint(in_flight)

    def forget(self) -> None:
        """Begin anew, with another producer. Whoever sends all again brings back what waited."""
        self._sent_before = frozenset()
        self._answered_before.clear()
        self._answered.clear()
        self._count = 0
        self._first.clear()
        self._waiting.clear()
