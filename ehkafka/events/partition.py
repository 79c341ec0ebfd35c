"""What happens to a partition that is ours: its pauses, and gaps in its log."""

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
    """Fetching of a partition was paused because its backlog is over its share."""

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
    """Fetching of a partition goes on: its backlog fell below the low mark."""

    partition: TopicPartition
    paused_s: float

    def sentence(self) -> str:
        return f"Resumed {self.partition} after {seconds(self.paused_s)}."


class PartitionUnreadable(Event, level=ERROR, subject=("partition", "offset", "code")):
    """Nothing of a partition can be read from an offset on.

    `is_batch`: the batch there is broken, or in a format that this client does not know; else the broker
    answers fetches of this partition with an error.
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
    """A partition that could not be read from an offset on is read again."""

    partition: TopicPartition
    offset: int
    lasted_s: float

    def sentence(self) -> str:
        return (
            f"{self.partition} can be read again from offset {self.offset}, after {seconds(self.lasted_s)}."
        )


class ParkedBudgetFull(Event, level=WARNING, subject="partition"):
    """A partition's share of the parked budget is full. `action` is what was declared for it."""

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
            f"bytes) waiting behind failed ones; key {plain(self.largest_key)} has the most. "
            f"{action.get(self.action, self.action)}."
        )


class OffsetGap(Event, level=ERROR, subject=("partition", "wanted_offset", "log_start", "log_end")):
    """The log no longer holds, or does not hold yet, the offset that was to be read next.

    `log_start` and `log_end` are what the log holds now; a wanted offset above the end means that the log
    was cut or recreated. `lost_records` counts the offsets that are never read, those that `latest` skips
    included (holes of compaction and transactions count as well). `action` is the policy
    `on_out_of_range`; `resumed_at` is None when it stops the app.
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
    """Retention will soon delete records of a partition that are not read, because it is paused or slow.

    The log begins at `log_start` now. `step_records` is the most that was deleted at once, `left_s` the time
    left at the mean speed since the partition was first looked at.
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

    Reported while the partition is paused. What becomes of it is decided by `on_out_of_range` when it is
    fetched again: then there is an `OffsetGap`, which counts what is lost.
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
    """A partition's log is another one than its position belongs to: its topic was recreated.

    `reason` says what tells them apart: the topic's id, or the timestamp of a record. `next_offset` is the
    position of the old log, which lies inside of the new one by chance: it does not decide, the policy
    `on_out_of_range` does, named by `action`. `lost_records` counts what is never read of the new log, as
    with `latest`; `resumed_at` is None when the policy stops the app. `option` names the policy: of a drop-in
    it is `auto.offset.reset`, and `action` is `none` where its position stays.
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
