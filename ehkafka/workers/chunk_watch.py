"""Finds a chunk that others should not wait for: its record takes long, or all of them do.

Poll thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.lanes.chunk import Chunk

# A record of a chunk that runs for so long is left to its worker, and the rest of the chunk taken away.
STEAL_S = 1.5e-3


class ChunkWatch:
    """How far the one chunk that is out was at the last look."""

    def __init__(self, quick_s: float) -> None:
        """`quick_s`: what a quick record costs at most; a chunk whose records cost twice as much is slow."""
        self._quick_s = quick_s
        # The chunk, when it was first seen and how far, when it was last seen to move and how far.
        self._seen: tuple[Chunk | None, float, int, float, int] = (None, 0.0, 0, 0.0, 0)

    def late(self, chunk: Chunk, now_s: float) -> tuple[float, int] | None:
        """Return for how long a chunk was seen, and over how many records, if it is to be ended early."""
        started = chunk.started()
        seen, first_s, first, moved_s, last = self._seen
        if seen is not chunk or not started:
            # Before its first record it only waits for its thread to be run.
            self._seen = (chunk, now_s, started, now_s, started)
            return None
        stuck = started == last and now_s - moved_s >= STEAL_S
        slow = now_s - first_s >= 2 * STEAL_S and now_s - first_s > 2 * self._quick_s * (started - first + 1)
        if stuck or slow:
            self._seen = (None, 0.0, 0, 0.0, 0)
            return now_s - first_s, started - first + 1
        if started != last:
            self._seen = (chunk, first_s, first, now_s, started)
        return None
