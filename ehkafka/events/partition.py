"""Events of a partition that the app has: its pauses, and gaps in its log."""

from __future__ import annotations

from logging import DEBUG, ERROR, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event
from ehkafka.wording import seconds
from ehkafka.wording.line import cannot_read, ending, plain, records

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.records import TopicPartition


def way_past(partition: TopicPartition, offset: int, group: str = "…") -> str:
    """Return the command that moves a group past a record, or a batch that cannot be read."""
    where = f"{plain(partition.topic)}/{partition.partition}@{offset}"
    return f"ehkafka offsets skip {where} --group {plain(group)} (shows a preview; add --yes to skip)"


class PartitionPaused(Event, level=DEBUG):
    """The app paused a partition, because its backlog exceeds the partition's share of the limits."""

    partition: TopicPartition
    backlog_records: int
    backlog_bytes: int
    # The key with the longest lane, when one key holds most of the backlog.
    largest_key: str | None

    def sentence(self) -> str:
        most = "" if self.largest_key is None else f", most of key {plain(self.largest_key)},"
        return (
            f"Paused {self.partition}: its backlog of {records(self.backlog_records)} "
            f"({self.backlog_bytes} bytes){most} exceeds the partition's share of the backlog limits."
        )


class PartitionResumed(Event, level=DEBUG):
    """The app resumed a partition, because its backlog is small enough again."""

    partition: TopicPartition
    paused_s: float

    def sentence(self) -> str:
        return f"Resumed {self.partition} after {seconds(self.paused_s)}."


class PartitionUnreadable(Event, level=ERROR, subject=("partition", "offset", "code")):
    """A partition cannot be read from an offset on.

    `is_batch`: the batch at the offset is broken, or has a format that the client does not know. Otherwise
    the broker answers fetches of this partition with an error.
    """

    partition: TopicPartition
    offset: int
    code: str
    error: str
    is_batch: bool

    def sentence(self) -> str:
        what = cannot_read(f"{self.partition}@{self.offset}", self.error, is_batch=self.is_batch)
        if not self.is_batch:
            return f"{what} The client keeps retrying."
        return (
            f"{what} No record after this batch is received or committed; other partitions continue. The "
            "app fetches the batch again every few seconds. If the batch stays broken, stop the app, run "
            f"{way_past(self.partition, self.offset)}, and start the app again."
        )


class PartitionReadable(Event):
    """A partition that could not be read can be read again."""

    partition: TopicPartition
    offset: int
    lasted_s: float

    def sentence(self) -> str:
        return (
            f"{self.partition} can be read again from offset {self.offset}, after {seconds(self.lasted_s)}."
        )


class ParkedBudgetFull(Event, level=WARNING, subject="partition"):
    """A partition has reached its limit of waiting records. `action`: the setting `on_parked_full`."""

    partition: TopicPartition
    parked_records: int
    parked_bytes: int
    # The parked key with the most records.
    largest_key: str
    action: str

    def sentence(self) -> str:
        action = {
            "pause_partition": "The app receives no more records of the partition",
            "dead_letter": "The key's records become dead letters",
            "stop": "The app stops",
        }
        return (
            f"{self.partition} has reached its limit of {records(self.parked_records)} ({self.parked_bytes} "
            f"bytes) that failed or wait behind failed ones; key {plain(self.largest_key)} has the most. "
            f"{action.get(self.action, self.action)}."
        )


class OffsetGap(Event, level=ERROR, subject=("partition", "wanted_offset", "log_start", "log_end")):
    """The log does not have the offset that was to be read next.

    The log now has the offsets from `log_start` to `log_end`. If `wanted_offset` is above the end, the log
    was truncated or recreated. `lost_records`: the number of offsets that are never read, including those
    that `latest` skips; offsets without a record count, too. `action`: the setting `on_out_of_range`.
    `resumed_at` is None if the app stops.
    """

    partition: TopicPartition
    wanted_offset: int
    log_start: int
    log_end: int
    lost_records: int
    action: str
    resumed_at: int | None

    def sentence(self) -> str:
        log = f"the log holds offsets {self.log_start} to {self.log_end}"
        if self.wanted_offset > self.log_end:
            beyond = self.wanted_offset - self.log_end
            what = f"lies {beyond} beyond the end: {log}, so it was truncated or recreated"
        elif self.wanted_offset < self.log_start:
            what = f"is gone: {log}"
        else:
            what = f"holds another record now: {log}, so it was truncated and written again"
        lost = f"{records(self.lost_records)} will not be read" if self.lost_records else "Nothing is skipped"
        step = f"reading {'stops' if self.resumed_at is None else f'continues at offset {self.resumed_at}'}"
        return (
            f"The next offset to read, {self.partition}@{self.wanted_offset}, {what}. {lost}; {step} "
            f"(on_out_of_range={plain(self.action)})."
        )


class RetentionNear(Event, level=WARNING, subject="partition"):
    """Retention will soon delete unread records of a partition that is paused or slow.

    The log begins at `log_start` now. `step_records`: the most records that were deleted at once. `left_s`:
    the time left at the mean speed of the deletions.
    """

    partition: TopicPartition
    next_offset: int
    log_start: int
    step_records: int
    left_s: float

    def sentence(self) -> str:
        left = self.next_offset - self.log_start
        return (
            f"Retention will soon delete unread records of {self.partition}: the next record to read has "
            f"offset {self.next_offset}, and the log begins {records(left)} before it, at offset "
            f"{self.log_start}. Retention deletes up to {records(self.step_records)} at a time and reaches "
            f"offset {self.next_offset} in about {seconds(self.left_s)}. Resume the partition, make its "
            "handler faster, or raise the topic's retention."
        )


class UnreadDeleted(Event, level=ERROR, subject=("partition", "log_start")):
    """Retention has deleted records of a partition before they were read.

    Reported while the partition is paused. When the app reads the partition again, `on_out_of_range` decides
    where, and an event `OffsetGap` counts the lost records.
    """

    partition: TopicPartition
    next_offset: int
    log_start: int
    deleted_records: int

    def sentence(self) -> str:
        return (
            f"Retention has deleted {records(self.deleted_records)} of {self.partition} before they were "
            f"read: the next record to read had offset {self.next_offset}, and the log now begins at offset "
            f"{self.log_start}. To lose no more records, resume the partition or raise the topic's retention."
        )


class LogReplaced(Event, level=ERROR):
    """A topic was deleted and recreated: a partition's position belongs to the old log.

    `reason`: the topic's ID or the timestamp of a record shows it. `next_offset`: the position in the old
    log. `action`: the setting `on_out_of_range`, which decides where reading continues. `lost_records`: the
    number of records of the new log that are never read. `resumed_at` is None if the app stops. `option`: the
    setting's name; for the drop-in consumer it is `auto.offset.reset`, and `action` is `none` if the consumer
    keeps its position.
    """

    partition: TopicPartition
    next_offset: int
    reason: str
    log_start: int
    log_end: int
    lost_records: int
    action: str
    resumed_at: int | None
    option: str = "on_out_of_range"

    def sentence(self) -> str:
        lost = (
            f"{records(self.lost_records)} of the new log will not be read"
            if self.lost_records
            else "No record of the new log is skipped"
        )
        step = f"reading {'stops' if self.resumed_at is None else f'continues at offset {self.resumed_at}'}"
        policy = f"{self.option}={plain(self.action)}"
        if self.action == "none":
            lost = f"Up to {records(self.lost_records)} of the new log are skipped"
            policy = (
                "as confluent-kafka does; seek() to the offset that you want. With contiguous=True or "
                "mirror=, and auto.offset.reset=earliest, the new log would be read from its beginning"
            )
        return (
            f"{self.partition} has a new log, because the topic was deleted and recreated: "
            f"{ending(self.reason)} Position {self.next_offset} belongs to the old log; the new log holds "
            f"offsets {self.log_start} to {self.log_end}. {lost}; {step} ({policy})."
        )

    def subject(self) -> Hashable:
        # A second gap is another loss, never a repetition.
        return (self.partition, self.reason)
