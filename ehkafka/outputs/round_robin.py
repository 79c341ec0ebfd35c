"""Decides which partition's outputs are sent next: partitions take turns, with one batch each. Pure.

A client has a few requests in flight to a broker, each for one partition, and it is not fair: some partitions
wait for seconds while others are sent again and again. If keys wait for acknowledgements (`before_next`), the
client gets few more batches than it can send at once, and outputs that are put meanwhile form one batch.
Otherwise it gets all outputs at once, so it always has some to send.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    # A topic, and one of its partitions or a key.
    Line = tuple[str, Any]

# A batch that is in flight for longer does not count as one: its partition holds up no others.
TURN_S: Final = 1.0
_ALL: Final = 1 << 30


class RoundRobin:
    """Of one client; `clear` when the next one takes over. The sender's thread only."""

    def __init__(self, lines: dict[Line, list[Any]], *, are_taken: bool) -> None:
        """`lines` has the waiting outputs, flat. A key's line has no turn. Not `are_taken`: none waits."""
        self._lines = lines
        self._are_taken = are_taken
        # Partitions with waiting outputs, in the order of their turns; and since when each of the others has
        # a batch in flight.
        self._waiting: deque[Line] = deque()
        self._under_way: dict[Line, float] = {}

    def add(self, line: Line, flat: list[Any]) -> None:
        """Let outputs wait for their partition's turn."""
        its = self._lines.get(line)
        if its is not None:
            its += flat
            return
        self._lines[line] = flat
        if line not in self._under_way:
            self._waiting.append(line)

    def room(self, most: int, now_s: float) -> int:
        """Return how many more batches may be sent, if `most` may be in flight."""
        if not self._are_taken:
            return _ALL
        return most - len(self._answering(now_s))

    def are_long(self, parts: int, now_s: float) -> bool:
        """Tell whether so many parts wait for partitions that answer that no more are needed.

        What waits for the others is bounded by the room of all outputs: until that is full they hold
        up no partition that answers, and no record can be taken back whose output waits.
        """
        moving = chain(self._waiting, self._answering(now_s))
        return sum(len(self._lines.get(line, ())) for line in moving) >= parts

    def _answering(self, now_s: float) -> list[Line]:
        return [line for line, since_s in self._under_way.items() if now_s - since_s < TURN_S]

    def next(self) -> Line | None:
        """Return the partition whose turn it is; None: no partition has waiting outputs."""
        while self._waiting:
            line = self._waiting.popleft()
            if self._lines[line]:
                return line
            del self._lines[line]  # its epochs have ended
        return None

    def handed(self, line: Line, left: list[Any], since_s: float | None) -> None:
        """Note what is left of a line after a batch, and when that was sent; None: nothing was sent."""
        if left:
            self._lines[line] = left
        else:
            del self._lines[line]
        if since_s is not None and self._are_taken:
            self._under_way[line] = since_s
        elif left:
            self._waiting.appendleft(line)

    def acknowledged(self, line: Line) -> None:
        """Note that the batch of a line is written."""
        if self._under_way.pop(line, None) is not None and line in self._lines:
            self._waiting.append(line)

    def clear(self) -> None:
        """Begin anew, with another client."""
        self._under_way.clear()
        self._waiting.clear()

    def take_out(self) -> list[list[Any]]:
        """Empty the lines; return what waited in each, to be sorted again."""
        flats = list(self._lines.values())
        self._lines.clear()
        self._waiting.clear()
        return flats
