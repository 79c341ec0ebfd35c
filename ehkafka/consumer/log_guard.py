"""Sees to it that a drop-in's positions belong to the logs that it reads: a recreated topic is reported.

librdkafka goes on in the middle of a topic that was deleted and recreated under its name. confluent-kafka's
contract stays: the program hears of it by the log, and its position stays where it is. Where the program has
asked for a guard of ours, the contiguous one or a mirror, the partition begins anew, as `auto.offset.reset`
says; but `latest` would skip more than to go on does, so it moves nothing.

The polling thread's. It asks by `LogAsker`, whose thread waits for the broker; nothing waits here.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaError

from ehkafka.consumer.carried_facts import CarriedFacts
from ehkafka.endpoint.client import open_admin, open_consumer
from ehkafka.events import LogReplaced
from ehkafka.intake.log_watch import LogWatch, refresh_s
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.positions.witness import witness_properties
from ehkafka.progress.metadata import NOTHING_KNOWN, facts_of
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode
from ehkafka.settings.secret import HiddenProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as KafkaPartition
    from confluent_kafka.admin import AdminClient

    from ehkafka.consumer.positions import Returned
    from ehkafka.events import Event
    from ehkafka.positions.gap import LogBounds
    from ehkafka.positions.log_asker import Commits, Question
    from ehkafka.progress.metadata import LogFacts

CHECK_S: Final = 0.5
# A program may be busy with one batch for long; that alone hides no new log.
STANDSTILL_S: Final = 60.0
# Between two tries to read what the group has committed.
_AGAIN_S = 10.0
# Where no log is. librdkafka answers it as `auto.offset.reset=error` has it.
_NOWHERE = 2**62
_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit", "logger")
_EARLIEST = frozenset({"earliest", "smallest", "beginning"})


class LogGuard:
    """The watch over the logs of one consumer. `begins_anew`: whether a guard of ours was asked for."""

    def __init__(
        self,
        config: Mapping[str, object],
        returned: Returned,
        emit: Callable[[Event], None],
        *,
        begins_anew: bool,
    ) -> None:
        self._emit = emit
        self._clients = _Clients()
        self._reset = str(config.get("auto.offset.reset", "latest")).strip().lower()
        self._begins_anew = begins_anew
        # A program's own callback for tokens must not run at the same time, except on its own request.
        self.is_on = begins_anew or "oauth_cb" not in config
        self.asker = LogAsker(TopicIds(self._clients.open_admin), self._clients.open_consumer)
        # A consumer that is not closed leaves no thread.
        weakref.finalize(self, self.asker.stop).atexit = False
        self.facts = CarriedFacts(returned)
        self._returned = returned
        self._watch = LogWatch(
            self.facts, self.asker, time.monotonic, standstill_s=STANDSTILL_S, wants_bounds=True
        )
        self._next_check_s = float("-inf")
        # What the group had committed when partitions began.
        self._commits: dict[TopicPartition, int] = {}
        self._reading: Question[Commits] | None = None
        self._asked: dict[TopicPartition, int] = {}
        self._not_before_s = float("-inf")

    def use(self, properties: Mapping[str, object]) -> None:
        """Take the properties of the client, for clients that ask."""
        self._clients.properties = HiddenProperties(
            {k: v for k, v in properties.items() if k not in _CALLBACKS}
        )
        self._watch.refresh_s = refresh_s(properties)

    def begun(self, partitions: Iterable[TopicPartition]) -> None:
        """These begin, at the group's commits unless the program says otherwise."""
        if self.is_on:
            self.facts.begun(partitions)
            self._next_check_s = float("-inf")

    def read(
        self, commits: Mapping[TopicPartition, KafkaPartition], known: Mapping[TopicPartition, LogFacts]
    ) -> None:
        """These commits were read already, for partitions that have begun; `known` stands for silent ones."""
        for partition, at in commits.items() if self.is_on else ():
            self._learn(partition, at, known.get(partition))

    def placed(self, partitions: Iterable[KafkaPartition]) -> None:
        """The program has said itself where these begin: the group's commits are nothing to them."""
        for at in partitions:
            partition = TopicPartition(at.topic, at.partition)
            if at.offset not in (OFFSET_STORED, OFFSET_INVALID) and self.facts.epoch(partition) is not None:
                known = self._commits.get(partition)
                if known != at.offset:
                    self._commits.pop(partition, None)
                    self.facts.carry(partition, self.facts.carried(partition).of_no_log())

    def begun_anew(self, partition: TopicPartition) -> None:
        """It goes on elsewhere in its new log: what is asked of it now is of before."""
        facts = self.facts.carried(partition)
        self.facts.begun([partition])
        self.facts.carry(partition, facts)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        gone = list(partitions)
        self.facts.ended(gone)
        for partition in gone:
            self._commits.pop(partition, None)

    def note_error(self, error: KafkaError) -> None:
        """Take an error of the client: brokers that were away may come back with another log."""
        if error.code() == ClientCode.ALL_BROKERS_DOWN:
            self._watch.ask_soon()

    def check(self, now_s: float) -> dict[TopicPartition, int]:
        """Ask and hear what is due, tell, and return where partitions are to begin anew. Twice a second."""
        if not self.is_on or now_s < self._next_check_s:
            return {}
        self._next_check_s = now_s + CHECK_S
        self._read_commits(now_s)
        anew = {}
        for partition, reason in self._watch.check().items():
            offset = self._replaced(partition, reason)
            if offset is not None:
                anew[partition] = offset
        return anew

    @property
    def next_check_s(self) -> float:
        """When there is something to look at."""
        return self._next_check_s if self.is_on and self.facts.has_any else float("inf")

    def stop(self) -> None:
        """Ask nothing any more."""
        self.asker.stop()

    def _read_commits(self, now_s: float) -> None:
        reading = self._reading
        if reading is not None and reading.done.is_set():
            self._reading = None
            if reading.answer is None:
                self._not_before_s = now_s + _AGAIN_S
            else:
                still = self.facts.unknown()
                for partition in (p for p, epoch in self._asked.items() if still.get(p) == epoch):
                    self._learn(partition, reading.answer.get(partition), None)
        unknown = self.facts.unknown()
        if self._reading is None and unknown and now_s >= self._not_before_s:
            self._asked = unknown
            self._reading = self.asker.read_commits(list(unknown))

    def _learn(self, partition: TopicPartition, at: KafkaPartition | None, known: LogFacts | None) -> None:
        facts = NOTHING_KNOWN
        if at is not None:
            self._commits[partition] = at.offset
            facts = facts_of(at.offset, at.metadata) if known is None else known
        self.facts.carry(partition, facts)
        self._watch.ask_soon()

    def _replaced(self, partition: TopicPartition, reason: str) -> int | None:
        """Tell of a log that is another one; return where to begin in it, None: go on."""
        found = self._watch.judged
        assert found is not None
        log, topic_id = found.bounds[partition], found.ids.get(partition.topic)
        position = self._returned.now().get(partition)
        next_offset = position.next_offset if position is not None else self._commits.get(partition, 0)
        self.facts.replaced(partition, topic_id)
        self._commits.pop(partition, None)
        offset = self._begin_at(log) if self._begins_anew else None
        skips = offset is None and next_offset > log.start
        self._emit(
            LogReplaced(
                partition,
                next_offset,
                reason,
                *log,
                lost_records=min(next_offset, log.end) - log.start if skips else 0,
                action=self._reset if offset is not None else "none",
                resumed_at=next_offset if offset is None else None if offset == _NOWHERE else offset,
                option="auto.offset.reset",
            )
        )
        return offset

    def _begin_at(self, log: LogBounds) -> int | None:
        if self._reset in _EARLIEST:
            return log.start
        return _NOWHERE if self._reset == "error" else None


class _Clients:
    """Opens the clients that ask. Apart from the guard, which may be collected while they are in use."""

    def __init__(self) -> None:
        self.properties: Mapping[str, Any] = {}

    def open_consumer(self) -> Consumer:
        """Open a consumer that joins no group: it is given partitions, and its group commits nothing."""
        # Whatever is wrong with the connection the program's consumer tells, too.
        return open_consumer({**witness_properties(self.properties), "log_level": 0})

    def open_admin(self) -> AdminClient:
        """Open a client that asks for ids."""
        return open_admin({**self.properties, "log_level": 0})
