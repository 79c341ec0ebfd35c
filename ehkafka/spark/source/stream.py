"""A stream's decisions: where it begins, how far the next batch goes, what is read for it.

No PySpark and no client in here; `log` is asked. Everything that
Spark may call again for the same batch gives the same answer: the start is resolved once and travels in
the offset that Spark writes down. Owned by one reader in Spark's planning process, one thread.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.ranges import begin
from ehkafka.ranges.anew import id_replaced
from ehkafka.ranges.loss import Loss, Lost, logs_replaced, partitions_gone
from ehkafka.ranges.places import AtGroup, AtOffsets, AtWord, Piece
from ehkafka.spark.source import planning
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.ranges.log import Log
    from ehkafka.ranges.offset_text import Positions
    from ehkafka.records import TopicPartition
    from ehkafka.spark.source.options import SourceOptions


class Stream:
    """The state of one query: what Spark does not keep for us."""

    def __init__(self, options: SourceOptions, log: Log) -> None:
        self._options = options
        self._log = log
        self._group = options.start.group if isinstance(options.start, AtGroup) else None
        # Where batch 0 begins, while Spark has written nothing down yet.
        self._begin: dict[TopicPartition, int] | None = None
        # Of a query with Trigger.AvailableNow: it ends here, whatever comes meanwhile.
        self._target: dict[TopicPartition, int] | None = None
        # The logs' ends as last seen, for the query's progress.
        self._seen: dict[TopicPartition, int] = {}
        self._is_checked = False
        self._witnesses = Witnesses(log)
        # When the last batch of this run began.
        self._began_s = -inf

    def initial(self) -> dict[str, Any]:
        """Return what Spark takes as the offset before batch 0."""
        return StreamOffset(is_unresolved=True).to_json()

    def latest(self, start_json: Any, limit_records: int | None) -> dict[str, Any]:
        """Return the end of the next batch, `start_json` itself when there is nothing new.

        Raises `ConfigurationError`, `EndpointError` or, by `failOnDataLoss`, `OffsetGapError`.
        """
        start = StreamOffset.from_json(start_json)
        self._check_same(start)
        self._log.identity.begin(self._log.topics())
        partitions = self._partitions(start)
        # Before the ends are: a first id is never younger than the positions that it comes with.
        ids = self._log.identity.first()
        begun = self._resolved_begin(partitions) if start.is_unresolved else None
        positions = dict(start.positions) if begun is None else begun
        before, self._seen = self._seen, self._log.ends(partitions)
        is_shorter = any(end < max(before.get(p, 0), positions.get(p, 0)) for p, end in self._seen.items())
        if self._waits(positions) and begun is None and not is_shorter:
            return dict(start_json)
        anew: dict[TopicPartition, int] = {}
        ids, replaced = self._ids_after(start, ids, is_idle=self._seen == positions)
        tentative = self._planned(positions, self._seen, limit_records)
        replaced |= self._witnesses.check(start, tentative, ids, is_urgent=is_shorter)
        if replaced:
            self._settle(logs_replaced((replaced[one] for one in sorted(replaced)), self._options.words))
            positions, self._seen, anew = self._in_new_logs(positions, replaced)
            planned = self._planned(positions, self._seen, limit_records)
            self._witnesses.begin({p: end for p, end in planned.items() if p in anew}, ids)
        added, moved = self._moved(positions, self._seen)
        anew |= moved
        ends = self._planned(positions | added | moved, self._seen, limit_records)
        if begun is None and ends == start.positions and not anew:
            return dict(start_json)
        # A log that begins at 0 goes without saying.
        begun = {one: at for one, at in added.items() if at} or None if begun is None else begun | added
        return self._offset(ends, begun, ids, anew).to_json()

    def empty(self, start_json: Any) -> dict[str, Any]:
        """Return the end of a batch without records: `start_json` itself, once the begin is written down.

        Spark plans batch 0 whatever it hears, so that one's end has to say where the stream begins.
        """
        start = StreamOffset.from_json(start_json)
        if not start.is_unresolved:
            return dict(start_json)
        begun = self._resolved_begin(self._partitions(start))
        return self._offset(begun, begun, {}, {}).to_json()

    def pieces(self, start_json: object, end_json: object) -> list[Piece]:
        """Return what a batch reads; the same for the same two offsets. Errors as `latest`."""
        start, end = StreamOffset.from_json(start_json), StreamOffset.from_json(end_json)
        self._check_same(end)
        if start.is_unresolved and end.start is None:
            raise ConfigurationError(
                "The checkpoint does not contain the start of its first batch: it was written by another "
                "version, or is damaged. Give the query a new checkpointLocation."
            )
        if start == end:
            return []  # Spark plans an empty batch from an end to itself, too
        starts = {**(end.start or {}), **start.positions, **end.anew}
        pieces = []
        for partition, to in sorted(end.positions.items()):
            # A partition that was added has never been read: from its beginning.
            at = starts.get(partition, 0)
            if to < at:
                # Planned by an earlier version, which did not write down where it went on.
                self._settle(Loss(partition, at, at, 0, to).lost(self._options.words))
                at = 0
            if to > at:
                pieces.append(Piece(*partition, at, to))
        return pieces

    def prepare_available_now(self) -> None:
        """Note the logs' ends, once: the query goes so far and then ends."""
        if self._target is None:
            self._target = self._log.ends(self._log.partitions())

    def with_ends(self, end_json: Any) -> dict[str, Any]:
        """Return the end of a batch, with the logs' ends as last seen of the partitions that have more."""
        end = StreamOffset.from_json(end_json)
        more = {one: at for one, at in self._seen.items() if at > end.positions.get(one, at)}
        return replace(end, ends=more).to_json()

    @property
    def ends_here(self) -> bool:
        """Whether the query ends with what was there when it began."""
        return self._target is not None

    def seen(self) -> dict[str, Any] | None:
        """Return the logs' ends as last seen, for the query's progress; None before the first look."""
        return StreamOffset(self._seen).to_json() if self._seen else None

    def _offset(
        self, ends: Positions, begun: Positions | None, ids: Mapping[str, bytes], anew: Positions
    ) -> StreamOffset:
        read = {one.topic for one in ends}
        topic_ids = {topic: one for topic, one in ids.items() if topic in read}
        witnesses = self._witnesses.records_for(ends, topic_ids)
        return StreamOffset(ends, begun, self._group, topic_ids=topic_ids, anew=anew, witnesses=witnesses)

    def _ids_after(
        self, start: StreamOffset, first: Mapping[str, bytes], *, is_idle: bool
    ) -> tuple[Mapping[str, bytes], dict[str, str]]:
        """Return the topics' ids, and which topics have another one than `start`, and what tells.

        After the ends were asked for: they are of the topics with these ids.
        """
        known = start.topic_ids
        if not known or (self._is_checked and is_idle):
            return {**first, **known}, {}
        now = self._log.identity.now({topic: known[topic] for topic in self._log.topics() if topic in known})
        replaced = {topic: one for topic, one in now.items() if one != known[topic]}
        text = {topic: id_replaced(topic, known[topic], one) for topic, one in replaced.items()}
        return {**first, **known, **replaced}, text

    def _planned(
        self, positions: Positions, ends: Positions, limit_records: int | None
    ) -> dict[TopicPartition, int]:
        """Return where a batch ends that begins at these positions."""
        starts = {one: positions.get(one, 0) for one in ends}
        return planning.limited(starts, self._up_to_target(starts, ends), limit_records)

    def _waits(self, positions: Positions) -> bool:
        """Tell whether too few records have arrived for a batch; one that may begin is taken to begin now."""
        if self._target is not None or positions.keys() != self._seen.keys():
            return False
        new, now_s = sum(end - positions[one] for one, end in self._seen.items()), time.monotonic()
        if 0 < new < self._options.least_records and now_s < self._began_s + self._options.delay_s_max:
            return True
        if new:
            self._began_s = now_s
        return False

    def _in_new_logs(
        self, positions: Positions, replaced: Collection[str]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return where each partition goes on, all logs' ends, and where the replaced topics' logs begin.

        Asked after the new ids, and the number of partitions as well: it may have changed.
        """
        partitions = self._log.partitions_now()
        ends = self._log.ends(partitions)
        anew = self._log.starts([one for one in partitions if one.topic in replaced])
        return {p: at for p, at in positions.items() if p.topic not in replaced} | anew, ends, anew

    def _partitions(self, start: StreamOffset) -> tuple[TopicPartition, ...]:
        """Return what is read now. One that is new may be known to us before each broker knows it."""
        place, known = self._options.start, set(start.positions)
        if start.is_unresolved and self._options.grows and isinstance(place, AtOffsets):
            known = {partition for partition, _ in place.offsets}
        partitions = self._log.partitions()
        return partitions if known <= set(partitions) else self._log.partitions_now(known)

    def _resolved_begin(self, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, int]:
        """Return where the stream begins, looked up once: a second `latest` would be later."""
        if self._begin is None:
            place, grows = self._options.start or AtWord("latest"), self._options.grows
            self._begin = begin.offsets_of(place, self._log, partitions, grows=grows)
        return self._begin

    def _moved(
        self, positions: Positions, ends: Positions
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return where those begin that were added, and where those go on whose log has lost its place.

        Settles what is lost, each once: the batch carries it, so a replay does not meet it again.
        """
        if gone := sorted(set(positions) - set(ends)):
            self._settle(partitions_gone(gone, self._options.words))
        # Where logs begin is asked once: later the tasks find it out, and it costs a request each time.
        asked = [
            one
            for one, end in ends.items()
            if not self._is_checked or one not in positions or positions[one] > end
        ]
        first = self._log.starts(asked) if asked else {}
        self._is_checked = True
        added, moved = {}, {}
        for partition, log_start in first.items():
            # An added partition is read from its beginning, which is 0 unless retention took records of it.
            at, end = positions.get(partition, 0), ends[partition]
            is_new, is_lost = partition not in positions, at < log_start or at > end
            if is_new:
                added[partition] = log_start
            elif is_lost:
                moved[partition] = log_start
            # With `grows` an added partition begins with its log: what it had before is no loss.
            if is_lost and not (is_new and self._options.grows):
                loss = Loss(partition, at, max(at, log_start, end), log_start, end)
                self._settle(loss.lost(self._options.words))
        return added, moved

    def _settle(self, lost: Lost) -> None:
        lost.settle(fail=self._options.fail_on_data_loss)

    def _up_to_target(self, starts: Positions, ends: Positions) -> Positions:
        """Return the ends that a query with Trigger.AvailableNow may see."""
        if self._target is None:
            return ends
        # A partition that was added since is left to the next run.
        target = self._target
        return {one: min(end, max(starts[one], target.get(one, 0))) for one, end in ends.items()}

    def _check_same(self, offset: StreamOffset) -> None:
        """Refuse a checkpoint of another topic or group."""
        topics = {one.topic for one in offset.positions}
        if topics and not any(map(self._log.reads, topics)):
            raise ConfigurationError(
                f"The checkpoint belongs to topic {', '.join(sorted(topics))}, but the query reads "
                f"{', '.join(self._log.topics())}. Give each query its own checkpointLocation."
            )
        group = self._group
        if offset.group != group and offset.group is not None and group is not None:
            raise ConfigurationError(
                f"The checkpoint began with the commits of group {offset.group!r}, but groupId is {group!r}."
                " Give each query its own checkpointLocation, or set groupId to the group of the checkpoint."
            )
