"""Whether a log is the one that a position was written for, by its topic's id or by one record.

A topic that was deleted and recreated, or a namespace that failed over, has the same names and other
records: to go on there by number would skip some. Pure: `topic_ids` and `witness` ask the broker.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.positions.gap import LogBounds
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition

# A record by which a log is distinguished from another one: its offset, and its timestamp in ms.
WitnessRecord = tuple[int, int]


class Reading(NamedTuple):
    """The log's contents at the offset of a witness.

    `first` is the first record at the witness's offset or behind it, as (offset, ms), None where there is
    none or where the log begins behind it. `end` is where the log ends if that is not behind the witness.
    """

    first: WitnessRecord | None
    end: int | None = None


class Judgement(NamedTuple):
    """Whether the log is the same, and what says so."""

    is_same: bool
    reason: str


@dataclass(slots=True, eq=False)
class Recognised:
    """The facts of each position about its log, and the broker's answers about these logs so far."""

    facts: Mapping[TopicPartition, LogFacts]
    ids: Mapping[str, bytes] = field(default_factory=dict)
    readings: Mapping[TopicPartition, Reading] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)

    def named(self) -> set[str]:
        """Return the topics whose ids the facts name."""
        return {partition.topic for partition, one in self.facts.items() if one.topic_id is not None}

    def unproved(self) -> dict[TopicPartition, int]:
        """Return the witnesses' offsets of those whom no id can tell from others."""
        return {
            partition: facts.witness[0]
            for partition, facts in self.facts.items()
            if facts.witness is not None and (facts.topic_id is None or partition.topic not in self.ids)
        }

    def disproved(self) -> list[TopicPartition]:
        """Return those whose position belongs to another log."""
        return [partition for partition in self.facts if self.disproof(partition) is not None]

    def disproof(self, partition: TopicPartition) -> str | None:
        """Return why a partition's position belongs to another log, None where nothing says so."""
        topic_id, reading = self.ids.get(partition.topic), self.readings.get(partition)
        return disproof(self.facts[partition], topic_id, reading)


def disproof(facts: LogFacts, topic_id: bytes | None, reading: Reading | None) -> str | None:
    """Return why a position with these facts belongs to another log, None where nothing says so.

    `topic_id` is the topic's id now, `reading` what stands where the witness was; None: not known. What is
    not known disproves nothing, nor does a witness that is gone: retention and compaction take records.
    """
    if facts.topic_id is not None and topic_id is not None:
        if facts.topic_id == topic_id:
            return None
        return f"the topic had the id {id_text(facts.topic_id)}, and now has the id {id_text(topic_id)}"
    if facts.witness is None or reading is None:
        return None
    return _witness_disproof(facts.witness, reading)


def judge(
    checkpoint: Checkpoint, log: LogBounds, reading: Reading | None, topic_id: bytes | None = None
) -> Judgement:
    """Tell whether a mirror's checkpoint may decide where its log is read: here it has to be proved."""
    next_offset, facts = checkpoint.next_offset, checkpoint.facts
    if next_offset == 0:
        return Judgement(is_same=True, reason="no record had been handled before")
    if next_offset > log.end:
        return Judgement(
            is_same=False, reason=f"the log ends at offset {log.end}, before offset {next_offset}"
        )
    if next_offset <= log.start:
        # Whichever log it is, nothing that it still holds is skipped.
        return Judgement(
            is_same=True, reason=f"the log begins at offset {log.start}, so no record is skipped"
        )
    if (other := disproof(facts, topic_id, reading)) is not None:
        return Judgement(is_same=False, reason=other)
    if facts.topic_id is not None and topic_id is not None:
        return Judgement(is_same=True, reason=f"the topic still has the id {id_text(topic_id)}")
    if facts.witness is None:
        return Judgement(
            is_same=False, reason="the mirror has no timestamp of a record, which would identify the log"
        )
    offset, wanted_ms = facts.witness
    if reading is None or reading.first != facts.witness:
        return Judgement(
            is_same=False,
            reason=f"the record at offset {offset}, which would identify the log, is gone",
        )
    moment = _moment(wanted_ms)
    return Judgement(is_same=True, reason=f"the record at offset {offset} still has the timestamp {moment}")


def judged(
    checkpoints: Mapping[TopicPartition, Checkpoint], found: Recognised
) -> dict[TopicPartition, Judgement]:
    """Judge checkpoints, but for those whose record was not read in time: nothing is proved of them."""
    unread = found.unproved().keys() - found.readings.keys()
    return {
        p: judge(one, found.bounds[p], found.readings.get(p), found.ids.get(p.topic))
        for p, one in checkpoints.items()
        if p not in unread
    }


def id_text(topic_id: bytes) -> str:
    """Return a topic's id as people write it."""
    return str(uuid.UUID(bytes=topic_id))


def _witness_disproof(witness: WitnessRecord, reading: Reading) -> str | None:
    offset, was_ms = witness
    if reading.end is not None:
        return f"the log ends at offset {reading.end}, but earlier, a record was read at offset {offset}"
    if reading.first is None or reading.first[0] != offset or reading.first[1] == was_ms:
        return None
    now = _moment(reading.first[1])
    return f"the record at offset {offset} had the timestamp {_moment(was_ms)}, and now has {now}"


def _moment(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds")
