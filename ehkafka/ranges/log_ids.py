"""What tells the logs of a reader from other ones of their names: ids, or records where there are no ids.

Asked on threads of their own (`positions.log_asker`). Used by one thread, which waits
for an answer within a bound, and for a broker that was silent no more than once a minute.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error, open_admin, open_consumer
from ehkafka.endpoint.silent import SILENT
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.topic_ids import ASK_S, TopicIds
from ehkafka.positions.witness import READ_S, witness_properties
from ehkafka.progress.metadata import LogFacts
from ehkafka.ranges.client import client_properties
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

    from ehkafka.positions.log_asker import Question
    from ehkafka.positions.same_log import Reading, Recognised
    from ehkafka.ranges.offset_text import Positions
    from ehkafka.ranges.options import RangeOptions

    Readings = Mapping[TopicPartition, Reading]

FIRST_S: Final = 1.0
"""What a run waits at first for ids that are not known to it: brokers that have them
answer long before, and most of it passes while the connection is made."""
CHECK_EVERY_S: Final = 60.0
"""How often records are looked at. Each look costs a connection, and a batch of records from each log: 0.1 s
for 500 logs of a broker on the same machine."""

# A thread may be busy with another question, and opens a client.
_MARGIN_S = 0.5
# No batch waits again for a broker that has just kept silent.
_SILENT_S = 60.0


class LogIds:
    """Ids and records of these topics. Opens nothing before the first question."""

    def __init__(self, options: RangeOptions) -> None:
        self._options = options
        self._asker = LogAsker(TopicIds(self._open_admin), self._open_consumer)
        # A broker that does not answer about ids must not keep records from being read.
        self._record_asker = LogAsker(TopicIds(None), self._open_consumer)
        self._first: Question[Recognised] | None = None
        self._first_by_s = 0.0
        self._not_before_s = self._records_at_s = float("-inf")

    def begin(self, topics: Iterable[str]) -> None:
        """Put the first question of a run, without waiting."""
        if self._first is None:
            self._first = self._ask(dict.fromkeys(topics))
            self._first_by_s = time.monotonic() + FIRST_S

    def first(self) -> Mapping[str, bytes]:
        """Return what the first question brought so far; waits a moment for it, once."""
        if self._first is None:
            return {}
        self._first.done.wait(max(0.0, self._first_by_s - time.monotonic()))
        return self._first.answer.ids

    def now(self, known: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Ask anew about topics whose ids are known; empty where no answer comes within 5 s."""
        if time.monotonic() < self._not_before_s:
            return {}
        asked_s = time.monotonic()
        question = self._ask(known)
        question.done.wait(ASK_S + _MARGIN_S)
        now_s = time.monotonic()
        # An answer that does not tell, as while a topic is being recreated, comes sooner.
        if not question.answer.ids and now_s - asked_s >= ASK_S:
            self._not_before_s = now_s + _SILENT_S
        return question.answer.ids

    def is_check_due(self) -> bool:
        """Tell whether records were last read a minute ago, or not yet."""
        return time.monotonic() >= self._records_at_s

    def records(self, first: Positions, then: Positions) -> tuple[Readings, Readings]:
        """Return what the logs have at these offsets, `then` read after `first`, each within 5 s.

        An error is no answer: the reader's own client tells of it, too.
        """
        if not (first or then):
            return {}, {}
        self._records_at_s = time.monotonic() + CHECK_EVERY_S
        before, after = (
            self._record_asker.ask(
                {partition: LogFacts(witness=(at, 0)) for partition, at in offsets.items()}
            )
            for offsets in (first, then)
        )
        return self._readings(before), self._readings(after)

    def stop(self) -> None:
        """End the asking threads, without waiting for them."""
        self._asker.stop()
        self._record_asker.stop()

    def _ask(self, known: Mapping[str, bytes | None]) -> Question[Recognised]:
        # A topic has one id, whichever partition is named.
        facts = {TopicPartition(topic, 0): LogFacts(topic_id=one) for topic, one in known.items()}
        return self._asker.ask(facts, reads=False)

    def _open_admin(self) -> AdminClient:
        return open_admin(self._quiet(), logger=SILENT)

    def _open_consumer(self) -> Consumer:
        return open_consumer(witness_properties(self._quiet()), logger=SILENT)

    def _quiet(self) -> dict[str, Any]:
        # Whatever is wrong with the connection the reader's consumer tells, too.
        options = self._options
        return {**client_properties(options.broker(), options.group, options.words.client), "log_level": 0}

    def _readings(self, question: Question[Recognised]) -> Readings:
        question.done.wait(READ_S + _MARGIN_S)
        if (error := question.error) is not None:
            text = describe_error(error.args[0]) if isinstance(error, KafkaException) else str(error)
            logging.getLogger(self._options.words.logger).info(
                "Whether the topics are still the same could not be read; it is retried: %s", text
            )
        return question.answer.readings
