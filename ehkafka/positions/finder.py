"""Finds where an epoch begins: at the group's commit if there is one, else at the start position.

On the poll thread, inside the assign callback or between two batches. It asks the broker, for a bounded
time: partitions whose broker does not answer wait, because the group waits for the callback, and a leader
that moves or a broker that restarts needs longer.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.positions.first_counts import FirstCounts
from ehkafka.positions.gap import AnotherLog, Gap, LogBounds, go_on_at
from ehkafka.positions.log_bounds import (
    commits_of,
    known_bounds,
    log_bounds,
    log_starts,
    start_offsets,
    unanswered,
)
from ehkafka.positions.without_commit import KnownStarts
from ehkafka.progress.metadata import NOTHING_KNOWN, LogFacts, facts_of
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.events import CounterName, Event
    from ehkafka.positions.start import Start
    from ehkafka.settings import OutOfRange

    IsDisproved = Callable[[Mapping[TopicPartition, LogFacts]], Mapping[TopicPartition, str]]
    Evidence = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, LogFacts]]

# How long one answer is waited for; where it does not come, no other of these partitions is.
LOOKUP_TIMEOUT_S = 5.0
# How long each of two answers is waited for that a partition can begin without.
NOW_ASK_S = 1.0
# Why a partition waits whose last transaction is not over, or whose commit an old coordinator has answered.
UNDECIDED = "the last transaction of this partition has not ended yet"
OLD_COMMIT = "the group's coordinator returned a commit that is older than this process's last commit"
# Copies of so many other partitions are asked for, one request each: the lowest were there from the first.
COPIES_MAX = 8


@dataclass(frozen=True, slots=True)
class Begin:
    """Where one partition begins. `committed` is the group's own entry, None when it has none."""

    partition: TopicPartition
    # A number, or OFFSET_BEGINNING where only the broker knows it.
    offset: int
    committed: KafkaPartition | None = None
    # From the mirror: the group had no commit.
    is_mirrored: bool = False
    # The group's entry where it is of another log: it decides nothing.
    disproved: KafkaPartition | None = None
    # What was known of the log and the group: each later commit says it, too.
    facts: LogFacts = NOTHING_KNOWN
    # The topic has got it since the group began, so it begins with its log, whatever `start` says.
    is_new: bool = False
    # It begins where its log has no record, as it would at any other time.
    is_empty: bool = False

    @property
    def words(self) -> str:
        """The position for people: an offset or `earliest`."""
        return "earliest" if self.offset == OFFSET_BEGINNING else str(self.offset)

    def kafka_partition(self) -> KafkaPartition:
        """Return what librdkafka is to be assigned; the commit's leader epoch lets it notice a cut log."""
        if self.committed is None:
            return KafkaPartition(*self.partition, self.offset)
        return self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """The sources that a finder asks in addition to the group. A source that is left out knows nothing."""

    # Which commits, by the facts they carry, belong to another log, and why.
    disproved: IsDisproved = lambda _facts: {}
    # What else is known of commits that carry no facts: next_offsets by partition.
    evidence: Evidence = lambda _commits: {}
    # Where those begin that were looked up and have no commit; those it leaves out begin at start. The second
    # ones are other partitions, of which it is only asked what copies of their commits say.
    without_commit: Callable[[Sequence[TopicPartition], Sequence[TopicPartition]], KnownStarts] = (
        lambda _none, _others: KnownStarts()
    )
    # Exactly once: partitions of transactions that are not over, and whether a commit (None: there is none)
    # is older than one that this process made. An epoch of these would send outputs again.
    undecided: Callable[[], Collection[TopicPartition]] = tuple
    is_old: Callable[[TopicPartition, KafkaPartition | None], bool] = lambda _partition, _commit: False
    # Asks again about those that wait; True once they are worth finding again.
    is_known: Callable[[Sequence[TopicPartition]], bool] = lambda _waiting: True


class StartPositions(NamedTuple):
    """The start positions that are known, and why the other partitions wait for theirs."""

    known: Sequence[Begin]
    waiting: Mapping[TopicPartition, str]


class PositionFinder:
    """Looks positions up. `start_of` says where partitions of a topic begin that have no commit."""

    def __init__(
        self,
        start_of: Callable[[str], Start],
        *,
        emit: Callable[[Event], None],
        count: Callable[[CounterName, int], None],
        on_out_of_range: OutOfRange = "stop",
        lookups: Lookups | None = None,
    ) -> None:
        self.start_of = start_of
        self._emit = emit
        self._count = count
        self._on_out_of_range = on_out_of_range
        self.lookups = lookups or Lookups()
        self.first_counts = FirstCounts()
        # Where those would begin that wait, as of when that was looked up.
        self._starts: dict[TopicPartition, int] = {}
        # Until when answers are waited for in all.
        self._ends_s = math.inf

    @contextmanager
    def within(self, all_s: float) -> Iterator[None]:
        """Let look-ups in here take so long together: what has no answer by then waits."""
        self._ends_s = time.monotonic() + all_s
        try:
            yield
        finally:
            self._ends_s = math.inf

    def left_s(self, most_s: float) -> float:
        """Return how long the next answer may take. Raises `KafkaException` where no time is left."""
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise KafkaException(KafkaError(ClientCode.TIMED_OUT))
        return min(most_s, left_s)

    def find(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> StartPositions:
        """Return where each partition begins, and which wait until that is known.

        A start position is looked for in the log at once, because it is committed before anything is read; a
        committed one is believed, and becomes a gap when the broker refuses it (`repair`), unless it is known
        to belong to another log: then it decides nothing. Raises `ConfigurationError`, and `EhkafkaError`
        where waiting does not help.
        """
        # In this order: a transaction that ends after the look-up has begun may change what it answers.
        undecided = self.lookups.undecided()
        asked = [p for p in partitions if p not in undecided]
        held = {p: UNDECIDED for p in partitions if p in undecided}
        found, waiting = self._find(consumer, asked, held)
        return StartPositions(found, {**held, **waiting})

    def _find(
        self, consumer: Consumer, partitions: Sequence[TopicPartition], held: dict[TopicPartition, str]
    ) -> StartPositions:
        try:
            committed = commits_of(consumer, partitions, self.left_s(LOOKUP_TIMEOUT_S))
            held |= {p: OLD_COMMIT for p in partitions if self.lookups.is_old(p, committed.get(p))}
            committed = {p: at for p, at in committed.items() if p not in held}
            partitions = [p for p in partitions if p not in held]
            known = self._known(committed)
            replaced = self._in_another_log(consumer, committed, known)
        except KafkaException as error:
            return StartPositions((), unanswered(error, partitions))
        disproved = {partition: committed.pop(partition) for partition in replaced}
        fresh = [p for p in partitions if p not in committed and p not in replaced]
        try:
            begun, waiting = self._fresh(consumer, committed, fresh)
        except KafkaException as error:
            begun, waiting = {}, unanswered(error, fresh)
        completed = self.first_counts.completed
        for p, at in committed.items():
            begun[p] = Begin(p, at.offset, at, facts=completed(p, known[p]))
        for p, at in disproved.items():
            begun[p] = Begin(p, replaced[p], disproved=at, facts=completed(p, known[p].of_no_log()))
        self._starts = {p: at for p, at in self._starts.items() if p not in begun}
        return StartPositions([begun[p] for p in partitions if p in begun], waiting)

    def _fresh(
        self,
        consumer: Consumer,
        committed: Mapping[TopicPartition, KafkaPartition],
        fresh: Sequence[TopicPartition],
    ) -> tuple[dict[TopicPartition, Begin], Mapping[TopicPartition, str]]:
        """Return where those begin that have no commit, and which wait."""
        mirrored, copied, waiting = self._without_commit(consumer, committed, fresh)
        self._note_starts(consumer, waiting.keys() - self._starts.keys())
        fresh = [p for p in fresh if p not in waiting]
        facts = self._facts(fresh, copied, mirrored)
        new = {p for p in fresh if p not in mirrored and self.first_counts.is_new(p)}
        at_start = [p for p in fresh if p not in mirrored and p not in new]
        for topic in sorted({p.topic for p in at_start}):
            asked = [p for p in at_start if p.topic == topic and p not in self._starts]
            self._starts |= start_offsets(
                consumer, self.start_of(topic), asked, self.left_s(LOOKUP_TIMEOUT_S)
            )
        # Numbers, so that they are committed before anything is read: the next owner may not know of them.
        begin_with_log = log_starts(consumer, new, self.left_s(LOOKUP_TIMEOUT_S))
        offsets = {**mirrored, **{p: self._starts[p] for p in at_start}}
        # Nothing from here on fails: what was reported of a gap is not to be reported again.
        offsets |= self._inside_the_logs(consumer, offsets)
        empty = self._in_empty_logs(consumer, [p for p, at in offsets.items() if at == OFFSET_BEGINNING])
        offsets |= empty | begin_with_log
        begun = {
            p: Begin(p, offsets[p], None, p in mirrored, None, facts[p], p in new, p in empty) for p in fresh
        }
        return begun, waiting

    def _without_commit(
        self,
        consumer: Consumer,
        committed: Mapping[TopicPartition, KafkaPartition],
        fresh: Sequence[TopicPartition],
    ) -> KnownStarts:
        """Return what is known of those without a commit, and note the first counts."""
        self.first_counts.note(_facts_of(committed))
        if not fresh:
            return KnownStarts()
        others = self._others(fresh, committed)
        self.first_counts.note(_facts_of(commits_of(consumer, others, self.left_s(LOOKUP_TIMEOUT_S))))
        found = self.lookups.without_commit(fresh, self._others(fresh, ())[:COPIES_MAX])
        self.first_counts.note(found.facts)
        return found

    def _facts(
        self,
        fresh: Sequence[TopicPartition],
        copied: Mapping[TopicPartition, LogFacts],
        mirrored: Collection[TopicPartition],
    ) -> dict[TopicPartition, LogFacts]:
        """Return what the copies of those without a commit know, or the topic's other commits."""
        counts = self.first_counts
        # A copy that does not decide where its partition begins says nothing of the log.
        ours = {p: one if p in mirrored else one.of_no_log() for p, one in copied.items()}
        return {p: counts.begun(p, ours.get(p, NOTHING_KNOWN)) for p in fresh}

    def _others(
        self, fresh: Sequence[TopicPartition], known: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the other partitions of topics with fresh ones whose first count is unknown."""
        asked = {*fresh, *known}
        topics = {p.topic: self.first_counts.lowest(p.topic) or 0 for p in fresh}
        return [
            other
            for topic, count in sorted(topics.items())
            if not self.first_counts.is_carried(topic)
            for number in range(count)
            if (other := TopicPartition(topic, number)) not in asked
        ]

    def _in_empty_logs(
        self, consumer: Consumer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return where those begin whose log has no record: none will show it, so it is committed now.

        A broker that does not answer is asked again while the app runs.
        """
        try:
            bounds = known_bounds(consumer, partitions, self.left_s(NOW_ASK_S)) if partitions else {}
        except KafkaException:
            return {}
        logs = {p: log for p, log in bounds.items() if isinstance(log, LogBounds)}
        return {partition: log.end for partition, log in logs.items() if log.start == log.end}

    def _known(self, committed: Mapping[TopicPartition, KafkaPartition]) -> dict[TopicPartition, LogFacts]:
        """Return what is known of each commit: what it says, or where it says nothing, what a copy does."""
        silent = {p: at.offset for p, at in committed.items() if not at.metadata}
        elsewhere = self.lookups.evidence(silent) if silent else {}
        return _facts_of(committed) | {p: one for p, one in elsewhere.items() if p in silent}

    def _in_another_log(
        self,
        consumer: Consumer,
        committed: Mapping[TopicPartition, KafkaPartition],
        facts: Mapping[TopicPartition, LogFacts],
    ) -> dict[TopicPartition, int]:
        """Return where those begin whose commit is of another log. Raises `OffsetGapError`."""
        disproved = self.lookups.disproved(facts) if facts else {}
        if not disproved:
            return {}
        bounds = log_bounds(consumer, list(disproved), self.left_s(LOOKUP_TIMEOUT_S))
        begun = {}
        for partition, reason in disproved.items():
            another = AnotherLog(partition, committed[partition].offset, reason, bounds[partition])
            resume_at = go_on_at(another, self._on_out_of_range, self._emit, self._count)
            if resume_at is None:
                raise another.error()
            begun[partition] = resume_at
        return begun

    def _note_starts(self, consumer: Consumer, waiting: Collection[TopicPartition]) -> None:
        """Look up where those would begin that wait: `latest` must not skip what comes meanwhile."""
        with suppress(KafkaException):  # looked up again with the next question
            for topic in {p.topic for p in waiting}:
                of_topic = [p for p in waiting if p.topic == topic]
                self._starts |= start_offsets(
                    consumer, self.start_of(topic), of_topic, self.left_s(NOW_ASK_S)
                )

    def _inside_the_logs(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where those begin instead that would begin outside of their log. Raises `OffsetGapError`."""
        numbers = [partition for partition, offset in offsets.items() if offset >= 0]
        if not numbers:
            return {}
        bounds = log_bounds(consumer, numbers, self.left_s(LOOKUP_TIMEOUT_S))
        moved = {}
        for partition in numbers:
            gap = Gap(partition, offsets[partition], bounds[partition])
            if gap.log.holds(gap.wanted_offset):
                continue
            resume_at = go_on_at(gap, self._on_out_of_range, self._emit, self._count)
            if resume_at is None:
                raise gap.error("start= gave this offset")
            moved[partition] = resume_at
        return moved


def _facts_of(commits: Mapping[TopicPartition, KafkaPartition]) -> dict[TopicPartition, LogFacts]:
    return {partition: facts_of(at.offset, at.metadata) for partition, at in commits.items()}
