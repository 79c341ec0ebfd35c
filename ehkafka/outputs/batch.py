"""A batch: a bundle's outputs for one partition, given to the producer at once and answered by one report.

A producer reports each message if it is asked to, which costs more than to send it. Here it is asked for the
last one's report. In a partition messages are written in the order in which they were handed over, and a
gapless producer whose messages never time out writes none behind one that it had to give up: where the last
one is written, all are. One call hands all of them over, during which librdkafka lets nobody change what it
knows of the topic: else some could fail for a topic that is missing for a moment, and the last one not.

Where that does not hold, each one is reported: with headers, which one call does not take, and with
properties by which librdkafka gives a message up (see `properties`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from ehkafka.outputs.answers import CONSEQUENCES
from ehkafka.outputs.bundle import Bundle, Columns

if TYPE_CHECKING:
    from ehkafka.outputs.answered import Answered
    from ehkafka.outputs.claim import SingleOutput
    from ehkafka.outputs.outlet import Outlet


class OutputBatch(Bundle):
    """Of one partition. On the sender's thread, unless it says otherwise."""

    __slots__ = (
        "_answers",
        "_answers_max",
        "_apart",
        "_failed",
        "_same",
        "answered",
        "is_at_once",
        "partition",
    )

    def __init__(self, outlet: Outlet, columns: Columns, partition: int) -> None:
        super().__init__(outlet, columns)
        self.partition = partition
        # Where the producer's answers go. Set by the sender as it hands the batch over.
        self.answered: Answered | None = None
        # One report is for all of it; else there is one for each, in their order.
        self.is_at_once = False
        # How many reports say that what they are for is written (in the order of the batch, as long as none
        # says anything else), and how many do where all is.
        self._answers = self._answers_max = 0
        # Once it is taken apart: whose reports are still to come, in the order of the batch.
        self._apart: deque[SingleOutput] | None = None
        # Of these, by key and value: nothing tells two apart that say the same. And those that have failed.
        self._same: defaultdict[tuple[Any, Any], deque[SingleOutput]] = defaultdict(deque)
        self._failed: set[SingleOutput] = set()

    def send(self, client: Any, answered: Answered, *, at_once: bool) -> None:
        """Give the producer all of it.

        Raises `BufferError`, and what the producer raises, with none of it sent; where each is reported some
        may be: `cut` then. Raises `SomeSentError` where nobody knows what was.
        """
        self.answered = answered
        self.is_at_once = at_once and not any(self.columns.headers)
        if self.is_at_once:
            self._send_at_once(client.produce_batch)
        else:
            self._send_each(client.produce)

    def _send_at_once(self, produce_batch: Any) -> None:
        pairs = zip(self.columns.keys, self.columns.values, strict=True)
        messages: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in pairs]
        messages[-1]["callback"] = self
        taken = produce_batch(self.topic, messages, self.partition)
        if taken == len(messages):
            self._answers_max = 1
            return
        if taken:
            raise SomeSentError
        error = messages[0]["_error"]
        raise BufferError if error.code() == KafkaError._QUEUE_FULL else KafkaException(error)  # noqa: SLF001

    def _send_each(self, produce: Any) -> None:
        topic, partition, sent = self.topic, self.partition, 0
        columns = self.columns
        try:
            for key, value, headers in zip(columns.keys, columns.values, columns.headers, strict=True):
                if headers is None:
                    produce(topic, value, key, partition, self)
                else:
                    produce(topic, value, key, partition, self, headers=headers)
                sent += 1
        finally:
            self._answers_max = sent

    def cut(self) -> Columns | None:
        """Keep what was sent, and return the rest; None: nothing was sent."""
        if not (sent := self._answers_max):
            return None
        rest = Columns.of(column[sent:] for column in self.columns)
        super().__init__(self.outlet, Columns.of(column[:sent] for column in self.columns))
        return rest

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        """Take a report. Called by librdkafka inside `poll`."""
        answered = self.answered
        assert answered is not None
        if self._apart is None:
            if error is None and answered.is_plain and message.offset() is not None:
                self._answers += 1
                if self._answers == self._answers_max:
                    answered.safe.append(self)
                return
            answered.apart.append(self.outlet.book.take_apart(self))
        assert self._apart is not None
        if self.is_at_once:
            for single in self._apart:
                single(error, message)
        elif self._apart:
            self._reported(self._apart, error, message)(error, message)

    def _reported(self, left: deque[SingleOutput], error: KafkaError | None, message: Any) -> SingleOutput:
        """Return which output a report is for."""
        if error is None:
            # They are written in their order, whatever was reported of later ones before.
            while (one := left.popleft()) in self._failed:
                pass
            self._same[one.key, one.value].popleft()
            return one
        same = self._same[message.key(), message.value()]
        if error.code() in CONSEQUENCES or not same:
            # It says nothing of any output, and what is on its way may be reported after it.
            return left[-1]
        # What fails in the producer may be reported before what was sent before it.
        one = same.pop()
        self._failed.add(one)
        return one

    def apart(self) -> tuple[list[SingleOutput], list[SingleOutput], list[SingleOutput]]:
        """Take it apart: return what is safe, what the producer has and has not answered, and the rest."""
        singles = self._singles(self.columns)
        if not self._answers_max:
            return [], [], singles
        safe, sent = singles[: self._answers], singles[self._answers :]
        for single in sent:
            single.answered = self.answered
            self._same[single.key, single.value].append(single)
        self._apart = deque(sent)
        return safe, sent, []


class SomeSentError(Exception):
    """The producer has taken some of a batch, and would report none of it."""
