"""A record without librdkafka: what tests of the pure core and the simulator hand to inboxes.

Pure values. Satisfies `ehkafka.records.Message`; the length is the value's, as in confluent_kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from ehkafka.records import Headers


class SimulatedMessage:
    """One record at a place in a log."""

    __slots__ = ("_headers", "_key", "_leader_epoch", "_offset", "_partition", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = b"x",
        *,
        leader_epoch: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._leader_epoch = leader_epoch
        self._headers = headers

    def key(self) -> bytes | None:
        """Return the key as produced."""
        return self._key

    def value(self) -> bytes | None:
        """Return the payload."""
        return self._value

    def topic(self) -> str:
        """Return the topic's name."""
        return self._topic

    def partition(self) -> int:
        """Return the partition's number."""
        return self._partition

    def offset(self) -> int:
        """Return the position in the partition."""
        return self._offset

    def leader_epoch(self) -> int | None:
        """Return the leader epoch that the record was written in."""
        return self._leader_epoch

    def timestamp(self) -> tuple[int, int]:
        """Return a time that grows with the offset, as a producer's time."""
        return 1, 1_000 + self._offset

    def headers(self) -> Headers | None:
        """Return the headers, `None` when there are none, as librdkafka does."""
        return self._headers

    def latency(self) -> float | None:
        """Return `None`: only a delivery report has a latency."""
        return None

    def error(self) -> KafkaError | None:
        """Return `None`: this is a record."""
        return None

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)

    def __repr__(self) -> str:
        return f"<{self._topic}[{self._partition}]@{self._offset} {self._key!r}>"


class WatchedMessage(SimulatedMessage):
    """Calls `seam` whenever its offset or length is read.

    The dispatcher reads them in the middle of its work under the lock, where another thread may run.
    """

    seam: Callable[[], object] | None = None

    def offset(self) -> int:
        """Return the position in the partition, after whatever happens in between."""
        if self.seam is not None:
            self.seam()
        return self._offset

    def __len__(self) -> int:
        if self.seam is not None:
            self.seam()
        return super().__len__()
