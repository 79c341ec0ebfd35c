"""What the broker knows of the topics: their partitions, where the logs begin and end, a group's commits.

The way in goes the same steps as `ehkafka check`, so that what is wrong is reported in the same words, before
the first record is read. Joins no group, commits nothing. Used by one thread at a time.
"""

from __future__ import annotations

import re
import time
from math import inf
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException

from ehkafka.checks.inspection import Inspection
from ehkafka.checks.reach import enter, reach_topic
from ehkafka.checks.target import Target
from ehkafka.endpoint.causes import LEADER_MOVES
from ehkafka.endpoint.client import check_client_version, describe_error
from ehkafka.errors import ConfigurationError, EndpointError, TopicNotFoundError
from ehkafka.positions.first_counts import FirstCounts
from ehkafka.positions.log_bounds import commits_of, log_ends, log_starts, offsets_at
from ehkafka.progress.metadata import facts_of
from ehkafka.ranges.client import client_properties
from ehkafka.ranges.log_ids import LogIds
from ehkafka.records import TopicPartition
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeVar

    from confluent_kafka import Consumer
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

    from ehkafka.ranges.loss import Words
    from ehkafka.ranges.options import RangeOptions

    _Answer = TypeVar("_Answer")

# What one question may take.
TIMEOUT_S = 30.0
# A wrong address is an error soon, but only at a run's first opening: a broker that restarts ends no query.
REFUSED_S = 3.0
# An idle query asks a hundred times a second. A new partition is read from its beginning, however late.
REFRESH_S = 10.0
# The wait before a question is asked again while a leader moves, doubled each time up to the second.
AGAIN_S = 0.1
AGAIN_S_MAX = 1.0
# What brokers take to tell each other of a partition is far less; a topic recreated with fewer waits for it.
MISSING_S = 2.0
# Longer than a leader takes to move, shorter than a stop waits for a trigger by default.
LEADER_S = 15.0


class Log:
    """The topics of one reader. Opened by the first question; every method may raise `EndpointError`.

    Opening raises `ConfigurationError`, `EndpointError` or `TopicNotFoundError`.
    """

    def __init__(self, options: RangeOptions) -> None:
        self._options = options
        self._timeout_s = min(TIMEOUT_S, options.timeout_s)
        self._inspection: Inspection | None = None
        self._was_reached = False
        # What tells these logs from others of their names.
        self.identity = LogIds(options)
        self._known: tuple[TopicPartition, ...] = ()
        self._refresh_at_s = 0.0

    @property
    def words(self) -> Words:
        """The words of the reader."""
        return self._options.words

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return what is read; that a topic has grown is seen within `REFRESH_S`."""
        now_s = time.monotonic()
        if now_s >= self._refresh_at_s:
            self._known = self._found()
            self._refresh_at_s = now_s + REFRESH_S
        return self._known

    def partitions_now(self, known: Collection[TopicPartition] = ()) -> tuple[TopicPartition, ...]:
        """Return the same, asked anew: a topic that was recreated may have others.

        While one of `known` is missing it is asked again for `MISSING_S`: not each broker knows a new
        partition at once.
        """
        wanted = {one for one in known if self.reads(one.topic) and not self._options.assigned}
        gives_up_s = time.monotonic() + MISSING_S
        while True:
            self._refresh_at_s = 0.0
            found = self.partitions()
            if wanted <= set(found) or time.monotonic() >= gives_up_s:
                return found
            time.sleep(AGAIN_S)

    def reads(self, topic: str) -> bool:
        """Tell whether a topic of this name is read, without asking the broker."""
        pattern = self._options.pattern
        if pattern is None:
            return topic in self._options.named_topics()
        return not topic.startswith("__") and re.fullmatch(pattern, topic) is not None

    def topics(self) -> tuple[str, ...]:
        """Return the topics' names, of a pattern those found. Raises `ConfigurationError` without one."""
        return self._options.named_topics() or tuple(sorted({one.topic for one in self.partitions()}))

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets that the logs still hold."""
        return self._asked(lambda consumer: log_starts(consumer, partitions, self._timeout_s))

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets after the logs' last records."""
        return self._asked(lambda consumer: log_ends(consumer, partitions, self._timeout_s))

    def at(self, moments_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset of each moment or later, None where all records are older."""
        found = self._asked(lambda consumer: offsets_at(consumer, moments_ms, self._timeout_s))
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def committed(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """Return what the group has committed, and which partitions are newer than its first commits."""
        assert group == self._options.group  # the client's own
        topics = sorted({one.topic for one in partitions})
        numbers = {topic: self._asked(self._about(topic)).topics[topic].partitions for topic in topics}
        asked = [TopicPartition(topic, number) for topic in topics for number in numbers[topic]]
        commits = self._asked(lambda consumer: commits_of(consumer, asked, self._timeout_s))
        counts = FirstCounts()
        counts.note({one: facts_of(at.offset, at.metadata) for one, at in commits.items()})
        committed = {one: commits[one].offset for one in partitions if one in commits}
        return committed, {one for one in partitions if counts.is_new(one)}

    def close(self) -> None:
        """Close the clients. The next question would open others."""
        self._close_client()
        self.identity.stop()
        self.identity = LogIds(self._options)

    def _close_client(self) -> None:
        if self._inspection is not None:
            self._inspection.close()
            self._inspection = None

    def _found(self) -> tuple[TopicPartition, ...]:
        if self._options.pattern is not None:
            return self._matching()
        assigned = self._options.assigned
        found = []
        for topic in self._options.named_topics():
            answer = self._asked(self._about(topic))
            there = answer.topics.get(topic)
            if there is None or not there.partitions:
                raise TopicNotFoundError(
                    f"Topic {topic!r} does not exist any more. Create the topic, or stop reading."
                )
            found += [TopicPartition(topic, number) for number in there.partitions]
        if missing := [one for one in assigned if one not in found]:
            last = max(one.partition for one in found if one.topic == missing[0].topic)
            raise ConfigurationError(
                f"{missing[0]} does not exist: name partitions that the topic has, 0 to {last}."
            )
        return tuple(sorted(assigned or found))

    def _matching(self) -> tuple[TopicPartition, ...]:
        there = self._asked(self._about(None)).topics
        found = [
            TopicPartition(one, number)
            for one in filter(self.reads, there)
            for number in there[one].partitions
        ]
        if not found:
            others = names(sorted(one for one in there if not one.startswith("__"))) or "none"
            raise TopicNotFoundError(
                f"The pattern {self._options.pattern} matches no topic's whole name: correct the pattern, or"
                f" create the topic. Topics on the broker: {others}."
            )
        return tuple(sorted(found))

    def _about(self, topic: str | None) -> Callable[[Consumer], ClusterMetadata]:
        def ask(consumer: Consumer) -> ClusterMetadata:
            answer: ClusterMetadata = consumer.list_topics(topic, timeout=self._timeout_s)
            for name, there in answer.topics.items():
                if there.error is not None and there.error.name() in LEADER_MOVES and self.reads(name):
                    raise KafkaException(there.error)
            return answer

        return ask

    def _client(self) -> Consumer:
        if self._inspection is None:
            self._inspection = self._opened()
        consumer = self._inspection.consumer()
        # What the client tells by the way would wait for a poll and pile up.
        self._inspection.listen(consumer, 0.0)
        self._inspection.client_errors.clear()
        return consumer

    def _opened(self) -> Inspection:
        check_client_version()
        options = self._options
        endpoint, topics = options.broker(), options.named_topics()
        inspection = Inspection(Target(endpoint=endpoint, topics=topics), self._timeout_s)
        inspection.use(client_properties(endpoint, options.group, options.words.client))

        def connect() -> None:
            for topic in topics or (None,):
                reach_topic(inspection, topic, refused_s=inf if self._was_reached else REFUSED_S)

        enter(inspection, connect)
        self._was_reached = True
        return inspection

    def _asked(self, question: Callable[[Consumer], _Answer]) -> _Answer:
        """Ask, once more by a new client: a kept connection may be refused a key that was rotated since.

        While a leader moves, as after a broker's restart, it is asked again: reading need not end for that.
        """
        gives_up_s = time.monotonic() + min(LEADER_S, self._timeout_s)
        wait_s, is_new = AGAIN_S, False
        while True:
            try:
                return question(self._client())
            except KafkaException as error:
                refusal = error.args[0]
            moves = refusal.name() in LEADER_MOVES
            if moves and time.monotonic() + wait_s < gives_up_s:
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, AGAIN_S_MAX)
            elif not moves and not is_new:
                self._close_client()
                is_new = True
            else:
                what = self._options.pattern or ", ".join(self._options.named_topics())
                raise EndpointError(
                    f"{self._options.broker().name}, topic {what}: the broker does not answer a request"
                    f" that reading needs: {describe_error(refusal)}"
                )
