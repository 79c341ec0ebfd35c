"""Events of handlers' outputs, and of messages of `app.producer`."""

from __future__ import annotations

from logging import ERROR, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event, without_numbers
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import clause, ending, plain

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.records import TopicPartition


class OutputRefused(Event, level=ERROR):
    """The broker refuses an output permanently. It is sent again after `retry_s`; None: see `decision`."""

    partition: TopicPartition
    offset: int
    to: str
    attempt: int
    error: str
    retry_s: float | None
    decision: str

    def sentence(self) -> str:
        then = (
            self.decision if self.retry_s is None else f"the output is sent again in {seconds(self.retry_s)}"
        )
        return (
            f"An output of {self.partition}@{self.offset} to {plain(self.to)} was refused, attempt "
            f"{self.attempt}: {clause(self.error)}; {then}. Nothing is committed past this record."
        )

    def subject(self) -> Hashable:
        return (self.to, self.retry_s is None)


class OutputThrottled(Event, level=WARNING, subject="to"):
    """The broker throttles, and has not accepted an output. It is sent again after `retry_s`."""

    to: str
    error: str
    retry_s: float

    def sentence(self) -> str:
        return (
            f"Throttled: a message to {plain(self.to)} is sent again in {seconds(self.retry_s)}, which "
            f"does not count as an attempt: {ending(self.error)}"
        )


class MessageNotDelivered(Event, level=ERROR):
    """A message of `app.producer` was refused, or timed out. Its future has the same error."""

    to: str
    error: str

    def sentence(self) -> str:
        return f"A message of app.producer to {plain(self.to)} was not delivered: {ending(self.error)}"

    def subject(self) -> Hashable:
        return (self.to, without_numbers(self.error))


class ProducerReplaced(Event, level=WARNING, subject="of"):
    """A producer failed and was closed. A new producer, opened after `wait_s`, sends its messages again.

    `of` is what the producer sends: `outputs`, `dead letters` or `messages of app.producer`.
    """

    of: str
    reason: str
    wait_s: float

    def sentence(self) -> str:
        return (
            f"The producer of {self.of} is replaced in {seconds(self.wait_s)}: {ending(self.reason)} "
            f"Unacknowledged {self.of} are then sent again, in order."
        )


class ProducerNotOpened(Event, level=ERROR, subject="of"):
    """No producer could be opened. The next try is in `retry_s`."""

    of: str
    error: str
    retry_s: float

    def sentence(self) -> str:
        return (
            f"{self.of.capitalize()} wait, because no producer could be opened: {clause(self.error)}; the "
            f"next attempt is in {seconds(self.retry_s)}."
        )


class ProducerPlain(Event, level=WARNING, subject="of"):
    """The broker does not support producer IDs, so dead letters or messages are sent without one.

    Their order is kept. If the acknowledgement of a message is lost, the topic may have the message twice.
    """

    of: str
    reason: str

    def sentence(self) -> str:
        return (
            f"{self.of.capitalize()} are sent without a producer ID, because this broker supports none: "
            f"{ending(self.reason)} If an acknowledgement is lost, a record may be written twice."
        )


class OutputsWait(Event, level=ERROR):
    """The broker has not acknowledged any of `count` outputs for `waited_s`, so the Spark task waits."""

    count: int
    waited_s: float

    def sentence(self) -> str:
        return (
            f"The broker has not acknowledged {counted(self.count, 'output')} for "
            f"{seconds(self.waited_s)}, so the Spark task waits. Check the broker, and this log for errors."
        )


class TransactionAborted(Event, level=WARNING):
    """A transaction was aborted. The next transaction repeats it, for partitions that the app still has."""

    partitions: tuple[TopicPartition, ...]
    outputs: int
    reason: str
    took_s: float

    def sentence(self) -> str:
        return (
            f"A transaction of {counted(len(self.partitions), 'partition')} with "
            f"{counted(self.outputs, 'output')} was aborted after {seconds(self.took_s)}: "
            f"{ending(self.reason)} The next transaction sends the outputs again."
        )

    def subject(self) -> Hashable:
        return without_numbers(self.reason)


class TransactionProducerReplaced(Event, level=WARNING):
    """The transactions' producer failed and was closed. No output is lost or repeated."""

    reason: str

    def sentence(self) -> str:
        return (
            f"The transactions' producer is replaced: {ending(self.reason)} The next transaction sends the "
            "outputs again."
        )
