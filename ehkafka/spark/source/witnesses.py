"""By which records a stream tells its logs from others of their names. No client in here; `log` is asked.

For topics without ids. A run looks at its begin, about once a minute, and at once where a log is
shorter than it was: it reads the records that the stream's offset carries, and newer ones to carry from then
on. The newer ones are read first: those that are carried tell afterwards whose log they were read in. What
is gone by retention or compaction, or was not read in time, proves nothing. Owned by `Stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.ranges.anew import made_anew, records_replaced
from ehkafka.ranges.offset_text import is_sayable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.positions.same_log import Reading, WitnessRecord
    from ehkafka.ranges.log import Log
    from ehkafka.ranges.offset_text import Positions
    from ehkafka.records import TopicPartition
    from ehkafka.spark.source.offsets import StreamOffset

    Readings = Mapping[TopicPartition, Reading]
    Records = Mapping[TopicPartition, WitnessRecord]

# Where a batch ends there may be the marker of a transaction, which is no record: one offset before it.
_BEFORE_END = 2


class Witnesses:
    """The records of one query's logs, as its run knows them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        # The newest of each partition, out of an offset or read by this run.
        self._known: dict[TopicPartition, WitnessRecord] = {}
        # What the offset carries that this run has looked at or written last. Any other is looked at at once.
        self._checked: Records | None = None
        # Topics of which a look of this run wanted a record, whether or not it got one.
        self._wanted: set[str] = set()

    def check(
        self, start: StreamOffset, planned: Positions, ids: Collection[str], *, is_urgent: bool
    ) -> dict[str, str]:
        """Return which topics were recreated since `start`, and what tells; nothing while no look is due.

        `planned` is where the batch is to end, `ids` are the topics that are known by their ids.
        """
        carried = self._carried(start, planned)
        # An offset that names nothing new is kept as it is, so nothing newer is read for it.
        is_idle = planned == start.positions
        wanted = {
            partition: at
            for partition, at in _last(planned, ids).items()
            if partition not in carried or not (is_idle or carried[partition][0] >= at)
        }
        if not (carried or wanted) or not (is_urgent or self._is_due(start, carried, wanted)):
            return {}
        fresh, seen = self._log.identity.records(wanted, {p: offset for p, (offset, _) in carried.items()})
        found = made_anew(carried, seen)
        proved = {p: one for p, one in _read(fresh, planned).items() if p not in carried or p in seen}
        self._known = {p: one for p, one in (carried | proved).items() if p.topic not in found}
        self._checked = start.witnesses
        self._wanted = (self._wanted | {p.topic for p in wanted}) - found.keys()
        return {topic: records_replaced(topic, reasons) for topic, reasons in found.items()}

    def begin(self, planned: Positions, ids: Collection[str]) -> None:
        """Take first records of logs that have just been found to be new."""
        fresh, _ = self._log.identity.records(_last(planned, ids), {})
        self._known |= _read(fresh, planned)

    def records_for(self, ends: Positions, ids: Collection[str]) -> dict[TopicPartition, WitnessRecord]:
        """Return what the offset of a batch with these ends carries."""
        found = {p: one for p, one in self._known.items() if p.topic not in ids and one[0] < ends.get(p, 0)}
        self._checked = found
        return found

    def _carried(self, start: StreamOffset, planned: Positions) -> dict[TopicPartition, WitnessRecord]:
        # Also where a topic's id is known by now, but not to the offset: the record decides before it does.
        ours = self._known | dict(start.witnesses)
        return {p: one for p, one in ours.items() if p in planned and p.topic not in start.topic_ids}

    def _is_due(self, start: StreamOffset, carried: Records, wanted: Positions) -> bool:
        # Whatever is read of a topic is to be recognised by some record of it.
        is_first = not {p.topic for p in wanted} <= {p.topic for p in carried} | self._wanted
        return is_first or start.witnesses != self._checked or self._log.identity.is_check_due()


def _last(planned: Positions, ids: Collection[str]) -> dict[TopicPartition, int]:
    """Return where the last record of each batch is looked for."""
    return {p: max(0, end - _BEFORE_END) for p, end in planned.items() if end and p.topic not in ids}


def _read(fresh: Readings, planned: Positions) -> dict[TopicPartition, WitnessRecord]:
    """Return the records that an offset at `planned` can carry."""
    found = {p: reading.first for p, reading in fresh.items() if reading.first is not None}
    return {p: one for p, one in found.items() if one[0] < planned[p] and is_sayable(one)}
