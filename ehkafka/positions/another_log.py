"""A log that is another one than its position belongs to: its event, and where each policy goes on.

Pure arithmetic on what the broker reported. The position lies inside of the new log by chance, so it decides
nothing: `on_out_of_range` does, as if the log had been cut away. Used by the poll thread when a partition
begins (`finder`) and while it is read (`intake.repair`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import OffsetGapError
from ehkafka.events import LogReplaced
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import CounterName, Event
    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OutOfRange

STEP = (
    "Choose on_out_of_range='earliest' to read all of it, commit where to resume (ehkafka offsets reset), or "
    "start a new group."
)


class AnotherLog(NamedTuple):
    """The position of the old log, what tells the logs apart, and what the new one holds."""

    partition: TopicPartition
    next_offset: int
    reason: str
    log: LogBounds

    def resume_at(self, action: OutOfRange) -> int | None:
        """Return where a policy goes on, None when it stops."""
        if action == "stop":
            return None
        return self.log.start if action == "earliest" else self.log.end

    def lost_records(self, action: OutOfRange) -> int:
        """Return how many offsets of the new log are never read, at most: `latest` skips all it holds."""
        return self.log.end - self.log.start if action == "latest" else 0

    def report(
        self, action: OutOfRange, emit: Callable[[Event], None], count: Callable[[CounterName, int], None]
    ) -> None:
        """Emit it and count what it costs."""
        lost_records = self.lost_records(action)
        emit(
            LogReplaced(
                self.partition,
                self.next_offset,
                self.reason,
                *self.log,
                lost_records=lost_records,
                action=action,
                resumed_at=self.resume_at(action),
            )
        )
        count("records_lost", lost_records)

    def error(self, step: str = STEP) -> OffsetGapError:
        """Return what ends an app whose policy is to stop; `step` is what can be done."""
        return OffsetGapError(
            f"{self.partition}: position {self.next_offset} belongs to another log than there is now: "
            f"{ended(self.reason)} The topic was deleted and recreated under its name; the log holds "
            f"{self.log.start} to {self.log.end}, and reading on by offset could skip some of it. {step}"
        )
