"""A client of the pretended broker, as a sender's producer has it.

It does in `poll` what librdkafka's threads do at any time, a few random steps at a time.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.outputs.pretended_broker import (
    FORGOTTEN,
    IN_FLIGHT,
    OUT_OF_ORDER,
    STATISTICS_S,
    TOO_LARGE,
    UNKNOWN_PARTITION,
    Answer,
    Message,
    Request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.outputs.one_producer import ClientCallbacks
    from tests.outputs.pretended_broker import Broker, Clock, Place

# More than a history has.
REFUSALS_MAX = 1_000


class Client:
    """A producer of confluent-kafka. `is_alone`: not gapless, one message in a batch."""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        callbacks: ClientCallbacks,
        *,
        is_alone: bool,
        room: int,
        meanwhile: Callable[[], None],
    ) -> None:
        """`meanwhile` is called where other threads may run."""
        self.broker, self.clock, self.callbacks, self.rng = broker, clock, callbacks, broker.rng
        self.is_alone, self.room = is_alone, room
        self._meanwhile = meanwhile
        self._producer = next(broker.producers)
        self._numbers: dict[Place, int] = {}
        self._queues: dict[Place, deque[Message]] = {}
        self._wire: list[Request] = []
        self._answers: deque[tuple[Message, int]] = deque()
        self._is_draining = self._has_called = False
        self.is_fatal = self.is_over = False
        self._counted_s = 0.0
        self.batch_max = 1 if is_alone else self.rng.choice((1, 2, 4))
        # What it was given and has not answered by a report.
        self.has: set[bytes] = set()
        self.given: list[bytes] = []
        # How often it has refused something itself.
        self._refusals = 0

    def __len__(self) -> int:
        waiting = sum(map(len, self._queues.values())) + sum(len(one.messages) for one in self._wire)
        return waiting + len(self._answers)

    def __bool__(self) -> bool:
        return True

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int,
        on_delivery: Callable[[KafkaError | None, Any], None] | None = None,
        *,
        headers: Any = None,
    ) -> None:
        """Take a message, or raise what librdkafka does."""
        assert not self.is_over, "a client that was given up is given more"
        if self.is_fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if len(self) >= self.room:
            raise BufferError("Local: Queue full")
        if headers is not None and self.broker.refuses.get(value):
            # What the client itself refuses; the second one's tries count.
            self.broker.refuses[value] -= self.is_alone
            self._refusals += 1
            if self._refusals > REFUSALS_MAX:
                pytest.fail("the client is given without end what it refuses")
            if headers == "large":
                raise KafkaException(KafkaError(TOO_LARGE))
            raise TypeError("headers may not be that")
        if partition < 0:
            partition = (self.rng.randrange(100) if key is None else key[0]) % self.broker.partitions
        if partition >= self.broker.partitions:
            raise KafkaException(KafkaError(UNKNOWN_PARTITION))
        place = topic, partition
        self._queues.setdefault(place, deque()).append(Message(place, value, on_delivery))
        self.has.add(value)
        self.given.append(value)

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        """Take some messages for one partition; return how many, and note in the others why not."""
        taken = 0
        for one in messages:
            if self.is_fatal or len(self) >= self.room:
                code = KafkaError._FATAL if self.is_fatal else KafkaError._QUEUE_FULL
                one["_error"] = KafkaError(code)
            elif partition >= self.broker.partitions:
                one["_error"] = KafkaError(UNKNOWN_PARTITION)
            else:
                self.produce(topic, one["value"], one["key"], partition, one.get("callback"))
                taken += 1
        return taken

    def poll(self, timeout_s: float) -> int:
        """Let some steps happen, and call back."""
        return self._serve(timeout_s)

    def purge(self, *, in_flight: bool = True) -> None:
        """Take back what waits; with `in_flight` also what is on the wire, which may be written or not."""
        for queue in self._queues.values():
            self._answers.extend((one, KafkaError._PURGE_QUEUE) for one in queue)
            queue.clear()
        if in_flight:
            cut: set[Place] = self.broker.stands.copy()
            for request in self._wire:
                if self.rng.random() < 0.5:
                    cut.add(request.place)
                if request.result is None and request.place not in cut:
                    self.broker.take(request)
                self._answers.extend((one, KafkaError._PURGE_INFLIGHT) for one in request.messages)
            self._wire.clear()
            self.is_over = True
            self.has.clear()

    def _serve(self, timeout_s: float) -> int:
        self._meanwhile()
        for _ in range(self.rng.randrange(1, 6 if timeout_s else 3)):
            self._step()
        self._call_error_cb()
        self.clock.now_s += self.rng.random() * 1e-3 if self._answers else max(timeout_s, 1e-4)
        called = len(self._answers)
        while self._answers:
            message, code = self._answers.popleft()
            self.has.discard(message.value)
            if message.on_delivery is not None:
                # A repeat may be answered without where it was written; `_answer` notes that by -1.
                at, error = (None, None) if code == -1 else (1, KafkaError(code) if code else None)
                message.on_delivery(error, Answer(message.place, at))
        return called

    def _call_error_cb(self) -> None:
        if self.is_fatal and not self._has_called:
            self._has_called = True
            error = KafkaError(KafkaError._GAPLESS_GUARANTEE, "a message was refused", fatal=True)
            self.callbacks.error_cb(error)
            if self.rng.random() < 0.3:
                raise KafkaException(error)
        if self.clock.now_s - self._counted_s >= STATISTICS_S:
            self._counted_s = self.clock.now_s
            self.callbacks.stats_cb(json.dumps(self._statistics()))

    def _statistics(self) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        for (topic, partition), queue in self._queues.items():
            on_wire = sum(len(one.messages) for one in self._wire if one.place == (topic, partition))
            topics.setdefault(topic, {"partitions": {}})["partitions"][str(partition)] = {
                "partition": partition,
                "acked_msgid": 0,
                "leader": 1,
                "msgs": len(queue) + on_wire,
                "txmsgs": on_wire,
                "msgq_cnt": len(queue),
                "xmit_msgq_cnt": 0,
            }
        return {"eos": {"idemp_state": "Assigned"}, "topics": topics}

    # -- what librdkafka does meanwhile ----------------------------------------------------------------

    def _step(self) -> None:
        self._leave_gone_partitions()
        stands = self.broker.stands
        places = [place for place, queue in self._queues.items() if queue and place not in stands]
        may_send = len(self._wire) < IN_FLIGHT and not (self.is_fatal or self._is_draining)
        if places and may_send and self.rng.random() < 0.6:
            self._send(self.rng.choice(places))
        # Each partition's requests are taken and answered in their order.
        first = {one.place: one for one in reversed(self._wire) if one.place not in stands}
        new = {one.place: one for one in reversed(self._wire) if one.result is None}
        if (open_ := [one for place, one in new.items() if place not in stands]) and self.rng.random() < 0.7:
            request = self.rng.choice(open_)
            request.result = self.broker.take(request)
        if (done := [one for one in first.values() if one.result is not None]) and self.rng.random() < 0.6:
            self._answer(self.rng.choice(done))
        if self._is_draining and not self._wire:
            self._is_draining = False
            self._producer, self._numbers = next(self.broker.producers), {}

    def _leave_gone_partitions(self) -> None:
        gone = [queue for place, queue in self._queues.items() if place[1] >= self.broker.partitions]
        for queue in filter(None, gone):
            self._answers.extend((one, UNKNOWN_PARTITION) for one in queue)
            queue.clear()
            self.is_fatal |= not self.is_alone

    def _send(self, place: Place) -> None:
        queue = self._queues[place]
        messages = [queue.popleft() for _ in range(min(len(queue), self.batch_max))]
        first = self._numbers.get(place, 0)
        self._numbers[place] = first + len(messages)
        self._wire.append(Request(place, self._producer, first, messages))

    def _answer(self, request: Request) -> None:
        if self.rng.random() < self.broker.loses:
            # The connection is lost with all its answers: all goes out again, under its old numbers.
            for one in self._wire:
                if one.place == request.place:
                    one.result, one.is_repeated = None, True
            return
        self._wire.remove(request)
        code = request.result or 0
        if code == OUT_OF_ORDER and self.is_alone:
            # Behind one that was refused: again, once the producer has new numbers.
            self._queues[request.place].extendleft(reversed(request.messages))
            self._is_draining = True
            return
        if code and self.is_alone:
            self._is_draining = True
        elif code and code != FORGOTTEN:
            self.is_fatal = True
        if not code and request.is_repeated and not self.is_alone and self.rng.random() < 0.2:
            code = -1  # the broker knows it, and no more where it is
        self._answers.extend((one, code) for one in request.messages)
