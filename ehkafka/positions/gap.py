"""A position that its log does not hold, or that belongs to another log: where each policy goes on.

Pure arithmetic on what the broker reported; nothing is looked up or sought here. Used by the poll thread when
a partition begins (`finder`) and while it is read (`intake.repair`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import OffsetGapError
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.events import CounterName, Event, LogReplaced, OffsetGap
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OutOfRange


class LogBounds(NamedTuple):
    """A log's first offset, and the offset after its last record."""

    start: int
    end: int

    def holds(self, position: int) -> bool:
        """Tell whether a position can be read from; the end can, it waits for the next record."""
        return self.start <= position <= self.end

    def resume_at(self, action: OutOfRange) -> int | None:
        """Return where a policy goes on, None when it stops."""
        if action == "stop":
            return None
        return self.start if action == "earliest" else self.end


class Gap(NamedTuple):
    """The offset that was to be read next, and the log that cannot give it.

    `finished` are the ranges above it that an earlier epoch has finished: they are not lost.
    """

    partition: TopicPartition
    wanted_offset: int
    log: LogBounds
    finished: Sequence[tuple[int, int]] = ()

    def lost_records(self, action: OutOfRange) -> int:
        """Return how many offsets are never read: deleted, and with `latest` those skipped as well.

        Of a log that ends before the wanted offset it is unknown whether what it holds was handled before
        (it was cut) or not (it was recreated): `latest` counts all of it.
        """
        if self.wanted_offset > self.log.end:
            return self.log.end - self.log.start if action == "latest" else 0
        up_to = self.log.end if action == "latest" else self.log.start
        return max(0, up_to - self.wanted_offset) - self._finished_below(up_to)

    def _finished_below(self, offset: int) -> int:
        return sum(max(0, min(end, offset) - start) for start, end in self.finished)

    def event(self, action: OutOfRange) -> OffsetGap:
        """Return its event."""
        from ehkafka.events import OffsetGap  # noqa: PLC0415 - who only asks for a log's bounds has no events

        return OffsetGap(
            self.partition,
            self.wanted_offset,
            *self.log,
            lost_records=self.lost_records(action),
            action=action,
            resumed_at=self.log.resume_at(action),
        )

    def error(self, reason: str = "") -> OffsetGapError:
        """Return what ends an app whose policy is to stop. `reason` is the broker's own word for it."""
        return OffsetGapError(
            f"{self.text(reason)} Nothing was skipped. To continue, do one of these: set the group's "
            f"offset (ehkafka offsets reset), use a new group, or choose on_out_of_range='earliest' or "
            f"'latest'."
        )

    def text(self, reason: str = "") -> str:
        """Say what was wanted and what there is."""
        log, because = self.log, f" ({reason})" if reason else ""
        return (
            f"{self.partition}: the next record to read was at offset {self.wanted_offset}, but the log now "
            f"holds offsets {log.start} to {log.end}{self._size()}{because}."
        )

    def _size(self) -> str:
        wanted, log = self.wanted_offset, self.log
        if wanted < log.start:
            missing, finished = log.start - wanted, self._finished_below(log.start)
            gone = f", so {counted(missing, 'record')} {'is' if missing == 1 else 'are'} gone"
            return f"{gone} ({finished} of them had been finished)" if finished else gone
        if wanted > log.end:
            return (
                f", so the log ends {wanted - log.end} offsets before that record: the log was truncated, "
                f"or its topic was recreated"
            )
        return ", and its records have changed: the log was truncated and written again"


STEP = (
    "Do one of these: choose on_out_of_range='earliest' to read the whole new log, set the group's offset "
    "(ehkafka offsets reset), or use a new group."
)


class AnotherLog(NamedTuple):
    """The position of the old log, what tells the logs apart, and what the new one holds.

    It lies inside of the new log by chance, so it decides nothing: `on_out_of_range` does, as if the log had
    been cut away.
    """

    partition: TopicPartition
    next_offset: int
    reason: str
    log: LogBounds

    def lost_records(self, action: OutOfRange) -> int:
        """Return how many offsets of the new log are never read, at most: `latest` skips all it holds."""
        return self.log.end - self.log.start if action == "latest" else 0

    def event(self, action: OutOfRange) -> LogReplaced:
        """Return its event."""
        from ehkafka.events import LogReplaced  # noqa: PLC0415 - likewise

        return LogReplaced(
            self.partition,
            self.next_offset,
            self.reason,
            *self.log,
            lost_records=self.lost_records(action),
            action=action,
            resumed_at=self.log.resume_at(action),
        )

    def error(self, step: str = STEP) -> OffsetGapError:
        """Return what ends an app whose policy is to stop; `step` is what can be done."""
        return OffsetGapError(
            f"{self.partition}: the topic was deleted and recreated, and position {self.next_offset} belongs "
            f"to the old topic: {ended(self.reason)} The new topic's log holds offsets {self.log.start} to "
            f"{self.log.end}. Reading from position {self.next_offset} could skip records of the new topic. "
            f"{step}"
        )


def go_on_at(
    gap: Gap | AnotherLog,
    action: OutOfRange,
    emit: Callable[[Event], None],
    count: Callable[[CounterName, int], None],
) -> int | None:
    """Emit it, count what it costs, and return where a policy goes on, None when it stops."""
    emit(gap.event(action))
    count("records_lost", gap.lost_records(action))
    return gap.log.resume_at(action)
