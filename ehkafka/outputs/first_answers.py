"""Which keys a producer may be given more of: those whose first output it has had an answer for.

The sender's thread only; no client, no clock. A broker takes any sequence number as a producer's first one in
a partition: where its first request there is refused, the next one, which the client has ready by then, would
pass it. Later ones do not, their numbers would leave a gap. So the second output of a key waits here until
the first one is acknowledged; from then on all go at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.outputs.claim import Output

# Keys known to be answered for. Past that all are forgotten, and each waits for one answer more.
ANSWERED_MAX: Final = 20_000


class FirstAnswers:
    """Of one producer; `forget` when the next one takes over."""

    def __init__(self) -> None:
        # By topic: keys, and partitions that were chosen by number; and how many of both.
        self._answered: dict[str, set[object]] = {}
        self._count = 0
        # The first output of a key, which is under way, and what waits behind it.
        self._first: dict[object, Output] = {}
        self._waiting: dict[object, list[Output]] = {}

    def holds(self, output: Output) -> bool:
        """Take an output that must wait; False: it may go."""
        place: object = output.key if output.partition < 0 else output.partition
        if place is None or ((known := self._answered.get(output.topic)) is not None and place in known):
            return False
        group = output.group
        if self._first.setdefault(group, output) is output:
            return False
        self._waiting.setdefault(group, []).append(output)
        return True

    def not_taken(self, output: Output) -> None:
        """Note that an output never went: there will be no answer, and the next one is the first."""
        if self._first.get(output.group) is output:
            del self._first[output.group]

    def has_waiting(self, group: object) -> bool:
        """Tell whether outputs of a key wait."""
        return group in self._waiting

    def acknowledged(self, outputs: Sequence[Output]) -> list[Output]:
        """Note answers; return what waited for them, each key's in its order."""
        released: list[Output] = []
        if not self._first:
            return released
        for output in outputs:
            group = output.group
            if group is None or group not in self._first:
                continue
            if self._count >= ANSWERED_MAX:
                self._answered.clear()
                self._count = 0
            topic, place = group
            self._answered.setdefault(topic, set()).add(place)
            self._count += 1
            del self._first[group]
            released += self._waiting.pop(group, ())
        return released

    def forget(self) -> None:
        """Begin anew, with another producer. Whoever sends all again brings back what waited."""
        self._answered.clear()
        self._count = 0
        self._first.clear()
        self._waiting.clear()
