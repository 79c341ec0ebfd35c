"""Values that every room shares: a message as the engine reads it, a partition's name, the outcomes.

Pure: no threads, no clock, no I/O.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ehkafka.headers.taking import Headers

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

__all__ = ["Headers", "Message", "Outcome", "TopicPartition"]


class TopicPartition(NamedTuple):
    """The name of a partition. Hashable and ordered; unlike confluent's class it carries no offset.

    - `topic` (required): its name.
    - `partition` (required): its number, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Outcome(enum.Enum):
    """How a record ended. Nothing else lets the watermark pass it."""

    FINISHED = "finished"
    SKIPPED = "skipped"
    DEAD_LETTERED = "dead-lettered"


class Message(Protocol):
    """The methods that the engine calls of a `confluent_kafka.Message` that was delivered without error.

    Narrower than confluent's own stubs, which must also describe producers' messages and errors: here
    topic, partition and offset are always there.
    """

    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def leader_epoch(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Headers | None: ...
    def latency(self) -> float | None: ...
    def error(self) -> KafkaError | None: ...
    def __len__(self) -> int: ...
