"""What the broker refused, and what waits behind it. The sender's thread only; no client, no clock.

Outputs of one group (a topic's key) keep their order: while one is refused, the later ones wait here, and go
on by the main producer once somebody has decided on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.outputs.claim import Output


class Refusal:
    """One output that was refused, with those of its group that wait."""

    __slots__ = ("due_s", "error", "head", "is_under_way", "is_with_judge", "throttled", "tries", "waiting")

    def __init__(self, head: Output, error: str, due_s: float) -> None:
        self.head = head
        self.error = error
        self.due_s = due_s
        # How often it was refused alone; then each counts as an attempt.
        self.tries = 0
        # How often the broker throttled such a try, which does not count.
        self.throttled = 0
        self.is_under_way = False
        # Its rules are asked, or it is with a letter, or the app stops for it: not sent until an answer.
        self.is_with_judge = False
        self.waiting: list[Output] = []


class Refusals:
    """By group; an output without a group blocks nobody."""

    def __init__(self) -> None:
        self._blocked: dict[object, Refusal] = {}

    def __len__(self) -> int:
        return len(self._blocked)

    def __iter__(self) -> Iterator[Refusal]:
        return iter(list(self._blocked.values()))

    def blocks(self, output: Output) -> bool:
        """Take an output that must wait; False: it may go, as one that was made before the refused one."""
        refusal = self._blocked.get(_place(output))
        if refusal is None or self.is_earlier(output, refusal.head):
            return False
        if refusal.head is not output:
            refusal.waiting.append(output)
        return True

    def keys(self, topic: str) -> set[object]:
        """Return the keys of a topic whose later outputs must wait."""
        blocked = (refusal.head for refusal in self._blocked.values())
        return {head.key for head in blocked if head.topic == topic and head.group is not None}

    def add(self, output: Output, error: str, due_s: float) -> None:
        """Note a refused output; behind an earlier one of its group that is refused, it waits."""
        if self.blocks(output):
            return
        later = self._blocked.get(_place(output))
        refusal = self._blocked[_place(output)] = Refusal(output, error, due_s)
        if later is not None:
            # Its producer was given up while both were on their way. Nobody has tried the later one alone.
            refusal.waiting = [later.head, *later.waiting]

    @staticmethod
    def is_earlier(output: Output, head: Output) -> bool:
        """Tell whether an output was made before a refused one of its group, which then waits for it."""
        return output.serial < head.serial

    def end(self, refusal: Refusal) -> list[Output]:
        """Forget a refusal; return what waited behind it and may go with others, in its order.

        The next one of a batch that was refused goes alone likewise. Together they would be refused again,
        and where they are thousands each new producer would bring a key one output further.
        """
        if self._blocked.get(_place(refusal.head)) is not refusal:
            return []  # ended already: its epoch was over
        del self._blocked[_place(refusal.head)]
        waiting = sorted(refusal.waiting, key=lambda output: output.serial)
        if not waiting or not waiting[0].is_suspect:
            return waiting
        following = self._blocked[_place(refusal.head)] = Refusal(waiting[0], refusal.error, 0.0)
        following.waiting = waiting[1:]
        return []

    def forget_waiting(self) -> None:
        """Let go of all that waits: whoever sends all again brings it back."""
        for refusal in self._blocked.values():
            refusal.waiting.clear()


def _place(output: Output) -> object:
    return output.serial if output.group is None else output.group
