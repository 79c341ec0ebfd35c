"""Counts of records, of one epoch or of one handler. Pure; written under the dispatcher's lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True, eq=False)
class Tally:
    """The results of received records, and the number and bytes of unfinished ones.

    received = finished + skipped + dead_lettered + returned + backlog + waiting
    """

    # The handler's, where this one is an epoch's: it counts the same.
    total: Tally | None = None
    received_records: int = 0
    received_bytes: int = 0
    finished_records: int = 0
    skipped_records: int = 0
    dead_lettered_records: int = 0
    # Of the finished ones, those that an earlier epoch had finished.
    restored_records: int = 0
    # Finished, but for an epoch that had ended: it counts as returned. Of a handler only.
    stale_records: int = 0
    # Left for the next owner of the partition.
    returned_records: int = 0
    returned_bytes: int = 0
    # Queued or with a handler; then what waits behind a held record, itself included.
    backlog_records: int = 0
    backlog_bytes: int = 0
    parked_records: int = 0
    parked_bytes: int = 0

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Tally:
        """Return the sum of what several have in backlog and waiting."""
        amounts = ("backlog_records", "backlog_bytes", "parked_records", "parked_bytes")
        found = list(tallies)
        return cls(**{name: sum(getattr(one, name) for one in found) for name in amounts})

    @property
    def outcomes(self) -> int:
        """How many records have ended in any way."""
        return self.finished_records + self.skipped_records + self.dead_lettered_records

    @property
    def unfinished_records(self) -> int:
        """How many records were received and have no result, those that wait included."""
        return self.backlog_records + self.parked_records

    @property
    def handled_bytes(self) -> int:
        """How many bytes the records had that went into the backlog and have a result."""
        return self.received_bytes - self.backlog_bytes - self.parked_bytes - self.returned_bytes

    def add(self, **amounts: int) -> None:
        """Count here and in the total."""
        for name, amount in amounts.items():
            setattr(self, name, getattr(self, name) + amount)
        if self.total is not None:
            self.total.add(**amounts)

    def receive(self, records: int, size: int) -> None:
        """Count records into the backlog."""
        self.received_records += records
        self.received_bytes += size
        self.backlog_records += records
        self.backlog_bytes += size
        if self.total is not None:
            self.total.receive(records, size)

    def finish(self, records: int, size: int) -> None:
        """Count records out of the backlog that have finished."""
        self.finished_records += records
        self.backlog_records -= records
        self.backlog_bytes -= size
        if self.total is not None:
            self.total.finish(records, size)

    def end(self, records: int, size: int, result: str) -> None:
        """Count records out of the backlog that have a result, which is counted by that name."""
        self.add(backlog_records=-records, backlog_bytes=-size, **{result: records})

    def give_back(self, records: int, size: int) -> None:
        """Count records out of the backlog that are left for the partition's next owner."""
        self.end(records, size, "returned_records")
        self.add(returned_bytes=size)

    def park(self, records: int, size: int) -> None:
        """Move records from the backlog to what waits; negative numbers move them back."""
        self.end(records, size, "parked_records")
        self.add(parked_bytes=size)
