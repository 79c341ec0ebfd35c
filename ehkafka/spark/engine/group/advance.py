"""What a finished batch makes of a partition's position. Pure; called by `commits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from ehkafka.spark.engine.tasks.results import LastRecord
    from ehkafka.spark.source.offsets import StreamOffset


def is_another_log(
    before: Position, partition: TopicPartition, ended: StreamOffset, *, is_batch: bool
) -> bool:
    """Tell whether a batch has begun another log with its beginning, or ended before the one before; once."""
    if ended.positions[partition] < before.next_offset:
        return True
    begun = ended.anew.get(partition)
    if begun is None:
        return False
    topic_id = ended.topic_ids.get(partition.topic)
    if topic_id is not None:
        return before.facts.topic_id != topic_id
    # An idle query tells its last batch's end again; and retention alone takes nobody back.
    return is_batch and begun < before.next_offset


def position_after(
    before: Position, partition: TopicPartition, ended: StreamOffset, last: LastRecord | None
) -> Position:
    """Return where a partition stands after a batch, and what its commit says of the log."""
    topic_id, end = ended.topic_ids.get(partition.topic), ended.positions[partition]
    # Another id than was known, and no new beginning: the next start is to find the commit disproved.
    facts = before.facts._replace(topic_id=before.facts.topic_id or topic_id)
    handled = None if last is None or last.timestamp_ms is None else (last.offset, last.timestamp_ms)
    if facts.topic_id is None:
        # What was handled may be of a new log already: what a look of the source has proved goes first.
        witness = ended.witnesses.get(partition) or facts.witness or handled
    else:
        witness = handled or facts.witness
    # A commit carries the epoch of the very record before it.
    is_before = last is not None and last.offset == end - 1
    epoch = last.leader_epoch if last is not None and is_before else None
    return before._replace(next_offset=end, leader_epoch=epoch, facts=facts._replace(witness=witness))
