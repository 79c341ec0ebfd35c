"""Writes records to a topic for a command, after the steps of a check up to the topic.

Each record is acknowledged by all in-sync replicas, and those of a key stay in order. `write` and the context
are for one thread; the producer's thread, `ehkafka-producer`, takes the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ehkafka.checks.inspection import Inspection
from ehkafka.checks.reach import enter, reach_topic
from ehkafka.checks.target import OWN_GROUP, as_own_group
from ehkafka.endpoint.client import check_client_version
from ehkafka.errors import ConfigurationError, EndpointError, NotDeliveredError, describe
from ehkafka.events import MessageNotDelivered
from ehkafka.outputs.own_producer import OwnProducer
from ehkafka.settings import Settings
from ehkafka.wording import ended

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ehkafka.checks.target import Target
    from ehkafka.events import Event
    from ehkafka.outputs.own_producer import Delivered

LAST_ANSWERS_S: Final = 5.0
"""After an error or Ctrl-C, for records that have been sent."""


@dataclass(slots=True)
class PartitionShare:
    """How many records a partition has got, and the offsets of the first and the last one."""

    records: int
    first_offset: int
    last_offset: int


class TopicWriter:
    """Opened and closed as a context manager. Entering raises what `reach_topic` raises.

    `written` has what the broker acknowledged, by partition; complete after the end of the block.
    """

    def __init__(self, target: Target, topic: str, *, timeout_s: float = 10.0) -> None:
        self._target = target
        self._topic = topic
        self._inspection = Inspection(target, timeout_s)
        self.written: dict[int, PartitionShare] = {}
        # Why a record was not written: the first reason counts.
        self._reasons: list[str] = []

    def __enter__(self) -> Self:
        check_client_version()
        self._target.endpoint.prepare_topics([self._topic])
        self._inspection.use(as_own_group(self._target.client_properties()))
        enter(self._inspection, lambda: reach_topic(self._inspection, self._topic))
        settings = Settings(group=OWN_GROUP, start="latest", consumer=self._target.consumer)
        self._producer = OwnProducer(
            self._target.endpoint,
            settings,
            emit=self._note,
            on_death=lambda error: self._reasons.append(describe(error)),
        )
        self._producer.open()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._producer.close(LAST_ANSWERS_S)
        self._inspection.close()

    def write(self, value: bytes | None, *, partition: int | None = None, **key_and_headers: Any) -> None:
        """Send a record; waits while too many have no answer.

        Raises `EndpointError` once a record was refused or timed out, `ConfigurationError` for an unknown
        partition, and `ValueError` for a record that is too large.
        """
        self._check()
        assert self._inspection.cluster is not None
        there = self._inspection.cluster.topics[self._topic].partitions
        if partition is not None and partition not in there:
            raise ConfigurationError(
                f"Topic {self._topic!r} has no partition {partition}: give one from 0 to "
                f"{max(there, default=0)}."
            )
        message = self._producer.message(self._topic, value, partition=partition, **key_and_headers)
        message.future.add_done_callback(self._answered)
        try:
            self._producer.take(message, waits=True)
        except NotDeliveredError as error:
            self._reasons.append(str(error))
            self._check()

    def flush(self) -> None:
        """Wait until all records are acknowledged; errors as `write`."""
        self._producer.flush(None)
        self._check()

    def _check(self) -> None:
        if self._reasons:
            raise EndpointError(f"A record was not written to {self._topic}: {ended(self._reasons[0])}")

    def _note(self, event: Event) -> None:
        if isinstance(event, MessageNotDelivered):
            self._reasons.append(event.error)

    def _answered(self, future: Future[Delivered]) -> None:
        if future.exception() is not None:
            return
        place = future.result()
        known = self.written.setdefault(place.partition, PartitionShare(0, place.offset, place.offset))
        known.records += 1
        known.first_offset = min(known.first_offset, place.offset)
        known.last_offset = max(known.last_offset, place.offset)
