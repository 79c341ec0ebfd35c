"""What an automatic commit passes beyond the records that were returned: offsets that hold none.

The polling thread's alone. librdkafka's own automatic commits pass such offsets as well; without them the end
of a transaction would stay uncommitted.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from ehkafka.intake.client_position import ClientPositions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

    from ehkafka.consumer.access import Access
    from ehkafka.consumer.marks import Marks
    from ehkafka.consumer.positions import Returned, Stored
    from ehkafka.records import TopicPartition


class Passed:
    """Raises what a program was given to where the client stands."""

    def __init__(self, consumer: Consumer, access: Access, done: Returned | Stored | Marks) -> None:
        """`consumer` is confluent-kafka's own view; `done` is what the automatic commits go by."""
        self._consumer = consumer
        self._access = access
        self._done = done
        self._positions = ClientPositions()

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """These were just assigned. Also in a callback."""
        self._positions.begin(self._consumer, partitions)

    def check(self, partitions: Iterable[TopicPartition], returned: Returned) -> None:
        """Take over where the client stands. Between two polls, when all is returned that it handed out.

        Not while somebody else is inside of the consumer: the next look will do.
        """
        access = self._access
        before, access.poller = access.poller, get_ident()
        try:
            if not access.is_sending:
                for partition in partitions:
                    self._raise_to_client(partition, returned)
        finally:
            access.poller = before
            if before is None and access.waiting_threads:
                access.poll_is_over()

    def _raise_to_client(self, partition: TopicPartition, returned: Returned) -> None:
        last = returned.last(partition)
        found = self._positions.beyond(self._consumer, partition, last)
        if found is not None:
            self._done.passed(partition, last, *found)
