"""Partitions that lag while no record of them arrives: since when, and what another client finds there.

The client reports nothing of batches that it cannot parse, nor of a log whose last records compaction has
taken away. So if a partition does not move, another client reads on from its position, on the asker's thread.
Its statistics tell the two apart, and both from an open transaction. On the poll thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaError

from ehkafka.endpoint.broker_errors import FailedFetch
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.positions.empty_tails import Tails
    from ehkafka.positions.log_asker import Question
    from ehkafka.records import TopicPartition

# After so long a standstill the log is read; and again after so long where that showed nothing, or something.
SILENT_S: Final = 3.0
AGAIN_S: Final = 60.0
# After such a standstill a log counts as read that shows nothing: a transaction may be open for ever.
UNKNOWN_S: Final = 30.0


class Tail(NamedTuple):
    """The result of reading a log from `begin` up to `end`, and when it is read again.

    `is_empty`: it has no record there. `is_unread`: the reading has shown nothing.
    """

    begin: int
    end: int
    again_s: float
    is_empty: bool
    is_unread: bool


class Standstill:
    """Which partitions lag while nothing of them arrives, and since when. Pure."""

    def __init__(self) -> None:
        # Up to where a partition was received when its log was first seen to end later, and since when.
        # Replaced, never changed: others read it.
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        # What was read last of partitions that stood still.
        self.tails: dict[TopicPartition, Tail] = {}

    def check(self, behind: Iterable[tuple[TopicPartition, int]], now_s: float) -> None:
        """Take which partitions are behind now, and the next offset that each waits for."""
        known = self._since
        found: dict[TopicPartition, tuple[int, float]] = {}
        for partition, received_next in behind:
            seen = known.get(partition)
            found[partition] = seen if seen and seen[0] == received_next else (received_next, now_s)
        self._since = found

    def forget_all(self) -> None:
        """Begin anew: silence proves nothing now."""
        self._since = {}

    def partitions(self) -> Iterable[TopicPartition]:
        """Return those that lagged at the last look."""
        return self._since

    def lasts_s(self, partition: TopicPartition, received_next: int, now_s: float) -> float:
        """Return for how long a partition has stood still; 0 where it has moved since the last look."""
        seen = self._since.get(partition)
        return 0.0 if seen is None or seen[0] != received_next else max(0.0, now_s - seen[1])

    def tail(self, partition: TopicPartition, begin: int) -> Tail | None:
        """Return what was read of a log from just this offset on."""
        found = self.tails.get(partition)
        return found if found is not None and found.begin == begin else None

    def is_unread(self, partition: TopicPartition, begin: int) -> bool:
        """Tell whether a partition stands still of whose log no reading has shown what is at this offset."""
        tail = self.tail(partition, begin)
        return partition in self._since and (tail is None or tail.is_unread)


class StandstillWatch:
    """Has logs read of partitions that stand still; `note` takes a batch that the client does not report."""

    def __init__(self, context: IntakeContext, note: Callable[[FailedFetch], None]) -> None:
        self._context = context
        self._note = note
        self._question: Question[Tails] | None = None

    def check(self) -> None:
        """Take an answer, look at the partitions, and put a question."""
        context = self._context
        # While records are withheld, those of a partition may stand in the client's queue behind others'.
        withheld, context.flow.has_withheld = context.flow.has_withheld, False
        is_blind = context.brokers.contact.is_blind or context.brokers.throttle.is_recent
        if self._question is not None and self._question.done.is_set():
            self._take(self._question.answer, is_blind=is_blind)
            self._question = None
        if is_blind or withheld:
            context.owned.standstill.forget_all()  # records that arrived meanwhile are not known
            return
        logs, paused = context.owned.logs, context.flow.paused
        context.owned.standstill.check(
            (
                (one.partition, one.received.next_offset or 0)
                for one in context.owned.epochs()
                if one.partition not in paused
                and (logs.end(one.partition) or 0) > (one.received.next_offset or 0)
            ),
            context.clock(),
        )
        self._ask()

    def _take(self, answer: Tails, *, is_blind: bool) -> None:
        owned, now_s, is_alone = self._context.owned, self._context.clock(), len(answer.asked) == 1
        for partition, (begin, end) in answer.asked.items():
            if partition not in owned or owned.begin_of(partition) != begin:
                continue
            received_next = owned[partition].epoch.received.next_offset or 0
            lasts_s = owned.standstill.lasts_s(partition, received_next, now_s)
            is_empty = partition in answer.empty and not is_blind
            is_over = is_alone and not is_blind and lasts_s >= UNKNOWN_S
            is_read = is_empty or is_over or partition in {*answer.full, *answer.broken}
            # Of several it is not known which one cannot be parsed: then each is read alone, at once.
            again_s = now_s + (AGAIN_S if is_read else SILENT_S if is_alone else 0.0)
            owned.standstill.tails[partition] = Tail(begin, end, again_s, is_empty, not is_read)
            if partition in answer.broken:
                error = KafkaError(ClientCode.BAD_MSG, "the records of the partition cannot be parsed")
                self._note(FailedFetch(partition, begin, error))

    def _ask(self) -> None:
        owned, asker = self._context.owned, self._context.brokers.asker
        if asker is None or self._question is not None:
            return
        still = [one for one in owned.standstill.partitions() if one in owned]
        due = [one for one in still if self._is_due(owned[one].epoch)]
        unread = [one for one in due if owned.standstill.tail(one, owned.begin_of(one)) is None]
        if asked := unread or sorted(due, key=lambda one: owned.standstill.tails[one].again_s)[:1]:
            self._question = asker.read_tails(
                {one: (owned.begin_of(one), owned.logs.end(one) or 0) for one in asked}
            )

    def _is_due(self, epoch: Epoch) -> bool:
        owned, partition, now_s = self._context.owned, epoch.partition, self._context.clock()
        lasts_s = owned.standstill.lasts_s(partition, epoch.received.next_offset or 0, now_s)
        if lasts_s < SILENT_S or partition in owned.unreadable:
            return False
        tail = owned.standstill.tail(partition, owned.begin_of(partition))
        return tail is None or now_s >= tail.again_s
