"""Finds streams whose record takes long, so that what waits behind it need not. Poll thread only."""

from __future__ import annotations

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


class StreamWatch:
    """How far each stream was at the last look, and since when."""

    def __init__(self) -> None:
        self._checked_s = float("-inf")
        self._seen: dict[Chunk, tuple[int, float]] = {}
        # Whether the last look saw a record, before which others wait, that ran at the look before, too.
        self.may_be_late = False

    def end_late(
        self, streams: Streams, mean_s: float, now_s: float, end_early: Callable[[Chunk], object]
    ) -> bool:
        """End early the streams whose record takes long; tell whether one may turn out to."""
        for stream in self.late(streams.live.copy(), mean_s, now_s):
            end_early(stream)
        return self.may_be_late

    def late(self, streams: Iterable[Chunk], mean_s: float, now_s: float) -> list[Chunk]:
        """Return the streams to be ended early; nothing between two looks."""
        if now_s < self._checked_s + CHECK_S:
            return []
        self._checked_s = now_s
        limit_s = max(LATE_S, LATE_TIMES * mean_s)
        before, self._seen = self._seen, {}
        self.may_be_late = False
        late = []
        for stream in streams:
            started = stream.started()
            # Before its first record it only waits for its thread to be run. Without anything behind its last
            # one nobody waits.
            if not started or (started == len(stream.messages) and not stream.behind):
                continue
            seen, since_s = before.get(stream, (0, now_s))
            if seen != started:
                since_s = now_s
            self._seen[stream] = started, since_s
            if now_s - since_s >= limit_s:
                late.append(stream)
            elif now_s > since_s:
                self.may_be_late = True
        return late
