"""Finds streams that nobody should wait for: a record takes long, or idle workers could run the rest.

Poll thread only.
"""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.streams import Streams

# Between two looks. A look at a hundred streams takes 30 µs: less than a hundredth of a core.
CHECK_S = 4e-3
# A record that runs for so long, and for so many times of what most take, is left to its worker alone. Not
# sooner: under many workers a record waits for the interpreter's lock now and then, for slices of 5 ms.
LATE_S = 6e-3
LATE_TIMES = 4
# Not later than this, though: with a look's delay, others wait for no more than 30 ms.
LATE_S_MAX = 25e-3


class StreamWatch:
    """How far each stream was at the last look, and since when those stand that did not move."""

    def __init__(self) -> None:
        self._checked_s = float("-inf")
        self._seen: dict[Chunk, int] = {}
        self._since_s: dict[Chunk, float] = {}
        # Whether the last look saw a record, before which others wait, that ran at the look before, too.
        self.may_be_late = False

    def end_late(
        self, streams: Streams, mean_s: float, now_s: float, idle: int, end_early: Callable[[Chunk], object]
    ) -> bool:
        """End early the streams whose record takes long, and where nothing else is left those for the idle.

        Tell whether one may turn out to be late.
        """
        is_due = now_s >= self._checked_s + CHECK_S
        for stream in self.late(streams.live, mean_s, now_s):
            end_early(stream)
        if is_due and idle and streams.is_dry:
            for stream in self.longest(idle):
                end_early(stream)
        return self.may_be_late

    def longest(self, count: int) -> list[Chunk]:
        """Return the streams with most that has not started, as of the last look: at most so many.

        Only where somebody else could run some of it: of other keys than the one that runs.
        """
        left = {
            stream: len(stream.messages) - started
            for stream, started in self._seen.items()
            if started and len(stream.messages) - started > 1
        }
        longest = sorted(left, key=left.__getitem__, reverse=True)[:count]
        return [stream for stream in longest if len(set(stream.keys[self._seen[stream] - 1 :])) > 1]  # type: ignore[index]

    def late(self, streams: Iterable[Chunk], mean_s: float, now_s: float) -> list[Chunk]:
        """Return the streams to be ended early; nothing between two looks."""
        if now_s < self._checked_s + CHECK_S:
            return []
        limit_s = max(LATE_S, min(LATE_TIMES * mean_s, LATE_S_MAX))
        before, before_s = self._seen, self._since_s
        # As `Chunk.started`, without a call for each: there may be hundreds.
        self._seen = seen = {
            stream: len(stream.messages) - length_hint(stream.listed)
            for stream in tuple(streams)  # one step: workers end some meanwhile
        }
        self._since_s = since_s = {}
        last_s, self._checked_s = self._checked_s, now_s
        late = []
        for stream, started in seen.items():
            # Before its first record it only waits for its thread to be run. Without anything behind its last
            # one nobody waits.
            if not started or started != before.get(stream):
                continue
            if started == len(stream.messages) and not stream.behind:
                continue
            since_s[stream] = stood_s = before_s.get(stream, last_s)
            if now_s - stood_s >= limit_s:
                late.append(stream)
        self.may_be_late = len(since_s) > len(late)
        return late
