"""Counts of records, of one epoch or of one handler. Pure; written under the dispatcher's lock."""

from __future__ import annotations


class Tally:
    """What became of the records received, and what of them is unfinished, in records and in bytes.

    received = finished + skipped + dead_lettered + returned + backlog + waiting
    """

    __slots__ = (
        "backlog_bytes",
        "backlog_records",
        "dead_lettered_records",
        "finished_records",
        "parked_bytes",
        "parked_records",
        "received_bytes",
        "received_records",
        "restored_records",
        "returned_bytes",
        "returned_records",
        "skipped_records",
        "stale_records",
    )

    def __init__(self) -> None:
        self.received_records = 0
        self.received_bytes = 0
        self.finished_records = 0
        self.skipped_records = 0
        self.dead_lettered_records = 0
        # Of the finished ones, those that an earlier epoch had finished.
        self.restored_records = 0
        # Finished, but for an epoch that had ended: it counts as returned. Of a handler only.
        self.stale_records = 0
        # Left for the next owner of the partition.
        self.returned_records = 0
        self.returned_bytes = 0
        # Queued or with a handler; then what waits behind a held record, itself included.
        self.backlog_records = 0
        self.backlog_bytes = 0
        self.parked_records = 0
        self.parked_bytes = 0

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

    def receive(self, records: int, size: int) -> None:
        """Count records into the backlog."""
        self.received_records += records
        self.received_bytes += size
        self.backlog_records += records
        self.backlog_bytes += size

    def leave_backlog(self, records: int, size: int) -> None:
        """Count records out of the backlog."""
        self.backlog_records -= records
        self.backlog_bytes -= size

    def give_back(self, records: int, size: int) -> None:
        """Count records out of the backlog that are left for the partition's next owner."""
        self.returned_records += records
        self.returned_bytes += size
        self.leave_backlog(records, size)

    def finish(self, records: int, size: int) -> None:
        """Count records out of the backlog that have finished."""
        self.finished_records += records
        self.backlog_records -= records
        self.backlog_bytes -= size

    def park(self, records: int, size: int) -> None:
        """Move records from the backlog to what waits; negative numbers move them back."""
        self.backlog_records -= records
        self.backlog_bytes -= size
        self.parked_records += records
        self.parked_bytes += size
