"""A broker in memory, as far as a sender can tell: requests, sequence numbers, refusals."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Place = tuple[str, int]

PARTITIONS = 3
IN_FLIGHT = 5
TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
OUT_OF_ORDER = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
FORGOTTEN = KafkaError.UNKNOWN_PRODUCER_ID
UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION
THROTTLED = KafkaError.THROTTLING_QUOTA_EXCEEDED
STATISTICS_S = 0.2


class Clock:
    """The time of a history: as `time`, and as an app's clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        # What the machine has slept, which only the wall's clock knows.
        self.slept_s = 0.0

    def monotonic(self) -> float:
        """Return the seconds that went by."""
        return self.now_s

    def time(self) -> float:
        """Return the wall's time."""
        return self.now_s + self.slept_s


class Answer(NamedTuple):
    """What a delivery report is given as the message."""

    place: Place
    at: int | None

    def topic(self) -> str:
        """Return its topic."""
        return self.place[0]

    def partition(self) -> int:
        """Return its partition."""
        return self.place[1]

    def offset(self) -> int | None:
        """Return where it is in its log, where the broker has answered that."""
        return self.at


class Message(NamedTuple):
    """What a client was given."""

    place: Place
    value: bytes
    on_delivery: Callable[[KafkaError | None, Any], None] | None


class Request:
    """A batch on its way. `result` is what the broker has answered: an error, 0, or None for nothing yet."""

    def __init__(self, place: Place, producer: int, first: int, messages: list[Message]) -> None:
        self.place, self.producer, self.first, self.messages = place, producer, first, messages
        self.result: int | None = None
        self.is_repeated = False


class Broker:
    """The logs, and what the broker knows of producers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.logs: dict[Place, list[bytes]] = {}
        # Fewer after the topics were made anew.
        self.partitions = PARTITIONS
        # The next sequence number of each producer in each partition; missing: any is taken. And the first
        # numbers of all batches that it was given.
        self.following: dict[tuple[int, Place], int] = {}
        self.taken: set[tuple[int, Place, int]] = set()
        self.forgotten: set[int] = set()
        self.stands: set[Place] = set()
        # How often a value is refused when it comes alone; with others it is refused always.
        self.refuses: dict[bytes, int] = {}
        self.producers = count(1)
        # Chances that a request is throttled, its producer forgotten, its answer lost.
        self.throttles = self.forgets = self.loses = 0.0
        self.has_written: Callable[[bytes], None] = lambda _: None

    def take(self, request: Request) -> int:
        """Write a batch, or return why not, by Kafka's number."""
        name = request.producer, request.place
        following = self.following.get(name)
        if (*name, request.first) in self.taken:
            return 0  # a repeat of what is written
        if self.rng.random() < self.forgets:
            self.forgotten.add(request.producer)
        if request.producer in self.forgotten:
            return FORGOTTEN
        if self.rng.random() < self.throttles:
            return THROTTLED
        refused = [one.value for one in request.messages if self.refuses.get(one.value)]
        if refused:
            if len(request.messages) == 1:
                self.refuses[refused[0]] -= 1
            return TOO_LARGE
        if following is not None and request.first != following:
            return OUT_OF_ORDER
        self.following[name] = request.first + len(request.messages)
        self.taken.add((*name, request.first))
        for one in request.messages:
            self.logs.setdefault(request.place, []).append(one.value)
            self.has_written(one.value)
        return 0
