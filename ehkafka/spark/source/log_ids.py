"""The topics' ids as the broker tells them to a query: these distinguish a topic recreated from the old one.

Asked on a thread of its own (`positions.log_asker`). Used in Spark's planning process, by one thread, which
waits for an answer within a bound, and for a broker that was silent no more than once a minute.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.endpoint.client import open_admin, open_consumer
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.topic_ids import ASK_S, TopicIds
from ehkafka.positions.witness import witness_properties
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition
from ehkafka.spark.source.client import client_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

    from ehkafka.positions.log_asker import Question
    from ehkafka.positions.same_log import Recognised
    from ehkafka.spark.source.options import SourceOptions

FIRST_S: Final = 1.0
"""What the first batch of a run waits for ids that its checkpoint does not name: brokers that have them
answer long before, and most of it passes while the connection is made."""

_WAIT_S = ASK_S + 0.5
# No batch waits again for a broker that has just kept silent.
_SILENT_S = 60.0


class LogIds:
    """What the broker calls these topics. Opens nothing before the first question."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._asker = LogAsker(TopicIds(self._open_admin), self._open_consumer)
        self._first: Question[Recognised] | None = None
        self._first_by_s = 0.0
        self._not_before_s = float("-inf")

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
        question.done.wait(_WAIT_S)
        now_s = time.monotonic()
        # An answer that does not tell, as while a topic is being recreated, comes sooner.
        if not question.answer.ids and now_s - asked_s >= ASK_S:
            self._not_before_s = now_s + _SILENT_S
        return question.answer.ids

    def stop(self) -> None:
        """End the asking thread, without waiting for it."""
        self._asker.stop()

    def _ask(self, known: Mapping[str, bytes | None]) -> Question[Recognised]:
        # A topic has one id, whichever partition is named.
        facts = {TopicPartition(topic, 0): LogFacts(topic_id=one) for topic, one in known.items()}
        return self._asker.ask(facts, reads=False)

    def _open_admin(self) -> AdminClient:
        # Whatever is wrong with the connection the driver's consumer tells, too.
        return open_admin(quiet_properties(self._options), logger=ClientLog(lambda _event: None))

    def _open_consumer(self) -> Consumer:
        properties = witness_properties(quiet_properties(self._options))
        return open_consumer(properties, logger=ClientLog(lambda _event: None))


def quiet_properties(options: SourceOptions) -> dict[str, Any]:
    """Return the properties of a client beside the driver's own, which tells what goes wrong."""
    return {**client_properties(options.endpoint.endpoint(), options.group), "log_level": 0}
