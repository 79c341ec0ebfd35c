"""A member of a level's group without an app, as a program: a loop over a client, as users write it by hand.

At least once: it handles what it has read, key by key in order, flushes the outputs, then commits. The client
is confluent-kafka's (`plain`) or ehkafka's drop-in (`drop-in`); where `protocol` says `consumer` it joins by
the protocol of KIP-848. `broken` names a promise that it breaks, once in so many records. SIGTERM stops it.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer as PlainConsumer
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

import ehkafka
from ehkafka.records import TopicPartition as Place
from tests.proof.program import asked_by, main, options, outputs_at
from tests.proof.work import ACTIONS, CODES, dead_topic, group_of, input_topic, output_topic

if TYPE_CHECKING:
    from tests.kit.checker.history_file import JsonLinesHistory

# `ahead`: its commits are one ahead of what it has handled. `swap`: two records of a key change places.
# `drop`: a record is left out. `twice`: a record is sent twice.
BROKEN = ("ahead", "swap", "drop", "twice")
BROKEN_EVERY = 10
CALLS_OF_AN_APP = 10
READ_MAX, READ_S, FLUSH_S, AHEAD_S = 100, 0.1, 60.0, 1.5
log = logging.getLogger("member")


def run(history: JsonLinesHistory) -> int:
    """Run until a signal comes."""
    member = ByHand(history)
    signal.signal(signal.SIGTERM, member.stop)
    try:
        member.work()
    finally:
        # After a fatal error librdkafka's close may not return.
        if member.fatal is None:
            member.consumer.close()
    return 0


class ByHand:
    """One consumer, one producer, and a loop."""

    def __init__(self, history: JsonLinesHistory) -> None:
        asked = options()
        self._history = history
        self._is_over = False
        self.fatal: KafkaError | None = None
        self._generation = 0
        self._broken: str | None = asked["broken"]
        level = asked["level"]
        self._topics = output_topic(level), dead_topic(level)
        quiet = {"bootstrap.servers": asked["bootstrap"], "error_cb": self._note_error}
        self.producer = Producer(
            {**quiet, "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5}
        )
        reads = {"group.id": group_of(level), "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        kind: Any = ehkafka.Consumer if asked["kind"] == "drop-in" else PlainConsumer
        self.consumer = kind({**quiet, **reads, **asked["consumer"]})
        callbacks = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._revoked}
        self.consumer.subscribe([input_topic(level)], **callbacks)

    def stop(self, *_: object) -> None:
        """End after the records at hand."""
        self._is_over = True

    def work(self) -> None:
        """Read, handle, flush, commit."""
        while not self._is_over:
            records = []
            for record in self.consumer.consume(READ_MAX, READ_S):
                if record.error() is not None:
                    self._note_error(record.error())
                else:
                    records.append(record)
            if self.fatal is not None:
                raise KafkaException(self.fatal)
            if not records:
                continue
            if self._broken == "ahead":
                # The first record of each partition counts as finished before it is handled.
                self._commit({one.partition(): one.offset() + 1 for one in reversed(records)}, wait_s=AHEAD_S)
            for record in self._in_order(records):
                self._handle(record)
            if self.producer.flush(FLUSH_S):
                raise RuntimeError("outputs are not acknowledged")
            self._commit({one.partition(): one.offset() + 1 for one in records})

    def _note_error(self, error: KafkaError) -> None:
        """Log an error; a fatal one ends the loop, since its client does nothing from then on.

        A consumer's fatal error comes as a record's error with the code `_FATAL`, and its `fatal()` is false.
        """
        log.info("%s", error)
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.fatal = error

    def _in_order(self, records: list[Any]) -> list[Any]:
        """Return them as they are handled, once in so many in the wrong order."""
        if self._broken == "swap":
            for at, (first, second) in enumerate(pairwise(records)):
                if first.key() == second.key() and all(map(has_output, (first, second))):
                    return [*records[:at], second, first, *records[at + 2 :]]
        return records

    def _handle(self, record: Any) -> None:
        begin_ns = time.monotonic_ns()
        # One call at a time, where an app has many: it would be the slowest of its group by far.
        time.sleep(asked_by(record).duration_s / CALLS_OF_AN_APP)
        action = ACTIONS[CODES[asked_by(record).action]]
        outputs = outputs_at(record, action.places, begin_ns)
        if record.offset() % BROKEN_EVERY == 0 and self._broken in {"drop", "twice"}:
            outputs = [] if self._broken == "drop" else outputs * 2
        for output in outputs:
            self._send(self._topics[0], record.key(), output)
        if action.letters:
            where = [("partition", record.partition()), ("offset", record.offset())]
            headers = [(f"ehkafka-origin-{name}", str(number).encode()) for name, number in where]
            self._send(self._topics[1], record.key(), record.value(), headers)

    def _send(self, topic: str, key: bytes, value: bytes, headers: Any = None) -> None:
        while True:
            try:
                return self.producer.produce(topic, value, key, headers=headers, on_delivery=acknowledged)
            except BufferError:
                self.producer.poll(0.1)

    def _commit(self, offsets: dict[int, int], *, wait_s: float = 0.0) -> None:
        """Commit; one that is refused is no loss, since the next owner handles these records again."""
        topic = input_topic(options()["level"])
        try:
            places = [TopicPartition(topic, *place) for place in offsets.items()]
            self.consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            log.info("a commit is refused: %s", error)
        time.sleep(wait_s)

    def _assigned(self, _consumer: object, places: list[TopicPartition]) -> None:
        self._generation += 1
        for place in places:
            self._history.assigned(Place(place.topic, place.partition), self._generation, "committed")

    def _revoked(self, _consumer: object, places: list[TopicPartition]) -> None:
        for place in places:
            self._history.revoked(Place(place.topic, place.partition), self._generation, "revoked")


def has_output(record: Any) -> bool:
    """Tell whether a record has one."""
    return bool(ACTIONS[CODES[asked_by(record).action]].places)


def acknowledged(error: Any, _message: object) -> None:
    """End where an output is refused: what was not sent must not be committed."""
    if error is not None:
        raise RuntimeError(f"an output is refused: {error}")


if __name__ == "__main__":
    sys.exit(main(__doc__, run))
