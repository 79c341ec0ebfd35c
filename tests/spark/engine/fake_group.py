"""A consumer group that keeps what it was reported, for queries that are followed without Spark."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from ehkafka.errors import GroupInUseError
    from ehkafka.spark.source.offsets import StreamOffset

P0 = TopicPartition("t", 0)


class FakeGroup:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.taken: GroupInUseError | None = None
        self.late: list[TopicPartition] = []
        self.problem: str | None = None
        self.is_finished = self.is_closed = False
        self.served = 0
        # How long the last commit might take, and from then on the end of the client.
        self.finish_s = self.close_s = 0.0

    def note(self, ended: StreamOffset, _lasts: object) -> None:
        """Take a batch's end."""
        self.ends.append(ended.positions[P0])

    def serve(self, _timeout_s: float) -> None:
        """Take a moment."""
        self.served += 1
        time.sleep(0.001)

    def lost(self) -> GroupInUseError | None:
        """Return what the test says."""
        return self.taken

    def stored(self) -> dict[TopicPartition, int]:
        """Return where the batch before the last one ended."""
        return {P0: self.ends[-2]} if self.ends[1:] else {}

    @property
    def commits(self) -> FakeGroup:
        """Return what commits, which is this, too."""
        return self

    def finish(self, timeout_s: float) -> list[TopicPartition]:
        """Return whose commit failed."""
        self.is_finished = True
        self.finish_s = timeout_s
        return self.late

    def close(self, *, deadline_s: float) -> None:
        """Note it."""
        self.is_closed = True
        self.close_s = deadline_s - time.monotonic()
