"""Checks that each partition's log is still the one that its position belongs to. Poll thread only.

A topic that is deleted and recreated under its name has other records at the same offsets, and librdkafka
reads on in the middle of them. The client does not report that, so `LogAsker` asks the broker: when
partitions are assigned, after an event that may hide a new log, and each time the client refreshes its
metadata. Only the assign callback waits for the answer, and only if a commit carries a topic's id.

The facts in a partition's commits are proved ones: the topic's id, or without ids a witness that was in the
log at the last look. A later witness is believed once that look has shown the log to be the same, because a
record of another log may have been finished meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ehkafka.positions.topic_ids import ASK_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.intake.owned import OwnedPartitions
    from ehkafka.positions.log_asker import LogAsker, Question
    from ehkafka.positions.same_log import Recognised, WitnessRecord
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition


class WatchedLog(NamedTuple):
    """How far one partition has got in its epoch: its last finished record, and its newest leader epoch."""

    epoch: int
    witness: WitnessRecord | None
    leader_epoch: int | None


class WatchedLogs(Protocol):
    """The partitions that a watch watches, and the facts about their logs in commits.

    An app's are its owned partitions; a drop-in has its own (`consumer.carried_facts`). Poll thread only.
    """

    def now(self) -> Mapping[TopicPartition, WatchedLog]:
        """Return all that are watched, as they are now."""
        ...

    def carried(self, partition: TopicPartition) -> LogFacts:
        """Return the facts that a partition's commits carry."""
        ...

    def carry(self, partition: TopicPartition, facts: LogFacts) -> None:
        """Let a partition's commits carry these."""
        ...


class OwnedLogs:
    """The logs of an app's partitions."""

    def __init__(self, owned: OwnedPartitions) -> None:
        self._owned = owned
        self.carried = owned.saver.carried
        self.carry = owned.saver.carry

    def now(self) -> Mapping[TopicPartition, WatchedLog]:
        """Return all that are owned."""
        found = {}
        for partition, (_, epoch) in self._owned.items():
            received = epoch.received
            leader_epoch = received.batches.last.leader_epoch if received.batches.last else None
            found[partition] = WatchedLog(epoch.number, received.witness, leader_epoch)
        return found


STANDSTILL_S: Final = 5.0
"""A poll thread that did not come round for so long was frozen, and may have missed anything."""

REFRESH_S: Final = 300.0
"""How often librdkafka refreshes its metadata by default (`topic.metadata.refresh.interval.ms`)."""

_REFRESHES = ("topic.metadata.refresh.interval.ms", "metadata.max.age.ms")

# Between two questions while the broker does not answer; twice as long after each, up to a refresh.
_AGAIN_S = 5.0
# A thread that is busy with another question answers this one later: it counts then.
_WAIT_S = ASK_S + 0.5


def refresh_s(properties: Mapping[str, Any]) -> float:
    """Return how often a client with these properties refreshes its metadata; never is as by default."""
    times_ms = [float(properties[name]) for name in _REFRESHES if name in properties]
    return min((time_ms / 1000 for time_ms in times_ms if time_ms > 0), default=REFRESH_S)


class LogWatch:
    """Asks, judges, and says which partitions have another log."""

    def __init__(
        self,
        logs: WatchedLogs,
        asker: LogAsker,
        clock: Callable[[], float],
        *,
        standstill_s: float = STANDSTILL_S,
        wants_bounds: bool = False,
    ) -> None:
        """With `wants_bounds` a log counts as another one once it is known where it begins and ends."""
        self._logs = logs
        self._asker = asker
        self._clock = clock
        self._standstill_s = standstill_s
        self._wants_bounds = wants_bounds
        # How often the client refreshes its metadata. Before the poll thread begins.
        self.refresh_s = REFRESH_S
        self._is_due = False
        self._next_s = float("-inf")
        self._not_before_s = float("-inf")
        self._again_s = _AGAIN_S
        self._checked_s = clock()
        # The question in flight, and what each partition had finished last when it was asked.
        self._question: Question[Recognised] | None = None
        self._samples: Mapping[TopicPartition, WatchedLog] = {}
        # The last one that was judged.
        self.judged: Recognised | None = None
        # The newest leader epoch that was received, by partition and epoch.
        self._leader_epochs: dict[TopicPartition, tuple[int, int]] = {}

    def disproved(self, facts: Mapping[TopicPartition, LogFacts]) -> dict[TopicPartition, str]:
        """Return which commits, by the facts that they carry, are of another log, and why.

        Waits up to five seconds where one carries an id. What is not known by then is asked again.
        """
        named = {partition: one for partition, one in facts.items() if one.topic_id is not None}
        if not named:
            return {}
        question = self._asker.ask(named, reads=False)
        question.done.wait(_WAIT_S)
        reasons = {partition: question.answer.disproof(partition) for partition in named}
        return {partition: reason for partition, reason in reasons.items() if reason is not None}

    def assigned(self) -> None:
        """Partitions have begun: ask at once, so that their first commits carry the topic's id."""
        self.ask_soon()
        if self._question is None:
            self._ask(self._clock())

    def ask_soon(self) -> None:
        """Ask at the next look: something may have hidden a new log, such as brokers that were away."""
        self._is_due = True
        self._not_before_s = float("-inf")
        self._again_s = _AGAIN_S

    def check(self, *, is_at_rest: bool = False) -> dict[TopicPartition, str]:
        """Return which partitions have another log, as far as answers have come, and why.

        The poll thread calls it twice a second, and every two seconds in an app at rest.
        `is_at_rest`: nothing was received since a look before this one, nor has ended.
        """
        now_s = self._clock()
        logs = {} if is_at_rest else self._logs.now()
        if now_s - self._checked_s > self._standstill_s or self._went_down(logs):
            self.ask_soon()
        self._checked_s = now_s
        self._pin(logs)
        found: dict[TopicPartition, str] = {}
        if self._question is not None and self._question.done.is_set():
            self.judged, self._question = self._question.answer, None
            found = self._judge(self.judged, now_s)
        if self._question is None and now_s >= self._not_before_s and (self._is_due or now_s >= self._next_s):
            self._ask(now_s)
        return found

    def _pin(self, logs: Mapping[TopicPartition, WatchedLog]) -> None:
        """Keep the first record that a partition has finished: its log is recognised by it."""
        for partition, log in logs.items():
            facts = self._logs.carried(partition)
            if facts.witness is None and log.witness is not None:
                self._logs.carry(partition, facts._replace(witness=log.witness))

    def _ask(self, now_s: float) -> None:
        self._is_due, self._next_s = False, now_s + self.refresh_s
        logs = self._logs.now()
        facts = {partition: self._logs.carried(partition) for partition in logs}
        if not facts:
            return
        self._samples = logs
        self._question = self._asker.ask(facts, wants_bounds=self._wants_bounds)

    def _judge(self, answer: Recognised, now_s: float) -> dict[TopicPartition, str]:
        found = {}
        logs = self._logs.now()
        for partition, facts in answer.facts.items():
            log = logs.get(partition)
            if log is None or log.epoch != self._samples[partition].epoch:
                continue
            reason = answer.disproof(partition)
            if reason is None:
                topic_id, was_read = answer.ids.get(partition.topic), partition in answer.readings
                self._prove(partition, facts, topic_id, now_s, was_read=was_read)
            elif self._wants_bounds and partition not in answer.bounds:
                self._ask_later(now_s)
            else:
                found[partition] = reason
        return found

    def _prove(
        self,
        partition: TopicPartition,
        facts: LogFacts,
        topic_id: bytes | None,
        now_s: float,
        *,
        was_read: bool,
    ) -> None:
        """Carry on what a look has shown; ask again where it has shown nothing though it should."""
        carried = self._logs.carried(partition)
        was_named = facts.topic_id is not None and topic_id is not None
        if not was_named and not was_read:
            if (facts.topic_id, facts.witness) != (None, None):
                self._ask_later(now_s)
                return
            if carried.witness is not None:
                # A record was finished since the question: it tells whether the answer is of the same log.
                self._is_due = True
                return
        witness = self._samples[partition].witness or carried.witness
        topic_id = topic_id or facts.topic_id
        self._logs.carry(partition, carried._replace(topic_id=topic_id, witness=witness))

    def _ask_later(self, now_s: float) -> None:
        if not self._is_due:
            self._is_due = True
            self._not_before_s = now_s + self._again_s
            self._again_s = min(2 * self._again_s, max(self.refresh_s, _AGAIN_S))

    def _went_down(self, logs: Mapping[TopicPartition, WatchedLog]) -> bool:
        """Tell whether an older leader's records came behind a newer one's, as in a log recreated."""
        went_down = False
        for partition, log in logs.items():
            if log.leader_epoch is None:
                continue
            epoch, newest = self._leader_epochs.get(partition, (log.epoch, -1))
            if epoch == log.epoch and log.leader_epoch < newest:
                went_down = True
            self._leader_epochs[partition] = log.epoch, log.leader_epoch
        return went_down
