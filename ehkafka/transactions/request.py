"""The positions that one transaction commits, and its result."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from ehkafka.endpoint.client import describe_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


# Another process has the producer's id now, or its transaction took longer than the broker permits.
FENCED: Final = frozenset({KafkaError._FENCED, 47, 90})  # noqa: SLF001 - librdkafka's own codes


class Request:
    """Made by the poll thread. `error` is valid once `done` is set; None: committed."""

    def __init__(
        self,
        positions: Mapping[TopicPartition, Position],
        metadata: bytes,
        changed: Mapping[TopicPartition, Position],
    ) -> None:
        """`metadata` are the group's; `changed` are the positions that differ from the group's commits."""
        self.positions = positions
        self.metadata = metadata
        self.changed = changed
        # From here on only the broker knows the result.
        self.is_committing = False
        self.error: KafkaError | None = None
        # How long its last transaction took.
        self.took_s = 0.0
        self.done = threading.Event()
        # It is not needed any more: abort it unless it is being committed. Set by the poll thread.
        self.is_unwanted = False

    @property
    def answer(self) -> KafkaError | None:
        """The error for the committer: a fenced producer does not mean a fenced member of the group."""
        if self.error is None or self.error.code() not in FENCED:
            return self.error
        return KafkaError(KafkaError._STATE, describe_error(self.error))  # noqa: SLF001 - as above
