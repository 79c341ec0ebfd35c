"""What this process knows of the group's commits, and which answers about them it believes.

Kafka's group coordinator answers from its memory and asks no other broker. A coordinator that was frozen or
cut off may still answer for a moment after another broker has taken over, without the commits that its
successor has taken since. An epoch that began there would send its outputs a second time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.progress.ledger import Position
from ehkafka.transactions.saving import ranges_above, says

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.records import TopicPartition

# A broker that was frozen hears of its successor within this time after it runs again.
CONFIRM_S: Final = 2.0
# A group may be reset by hand: an older commit is believed after it was answered for this time.
OLD_S: Final = 30.0


class GroupCommits:
    """The newest commit of each partition that this process has made or read."""

    def __init__(
        self,
        read: Callable[[Sequence[KafkaPartition]], Sequence[KafkaPartition]],
        clock: Callable[[], float],
    ) -> None:
        """`read` asks the group's coordinator with a new client, which waits for transactions to end."""
        self._read = read
        self._clock = clock
        # The present epochs of this process. The poll thread changes them.
        self.epochs: Mapping[TopicPartition, int] = {}
        # Written by the transactions' thread, and by the poll thread as an epoch begins.
        self._newest: dict[TopicPartition, Position] = {}
        # Since when an older commit is answered. Poll thread.
        self._old_since_s: dict[TopicPartition, float] = {}

    def note(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Note positions that were committed."""
        self._newest.update(positions)

    def is_old(self, partition: TopicPartition, commit: KafkaPartition | None) -> bool:
        """Tell whether an answer (None: no commit) is older than one that was made or read before.

        An answer that is not is noted: the partition's next epoch begins there.
        """
        newest, now_s = self._newest.get(partition), self._clock()
        found = commit and Position(0, commit.offset, None, commit.metadata or None)
        if newest is not None and not (found and _contains(found, newest)):
            if now_s - self._old_since_s.setdefault(partition, now_s) < OLD_S:
                return True
            del self._newest[partition]
        self._old_since_s.pop(partition, None)
        if found:
            self._newest[partition] = found
        return False

    def were_made(self, positions: Mapping[TopicPartition, Position]) -> bool:
        """Tell whether a transaction that is over has committed these positions. Transactions' thread.

        A "no" is asked a second time, because the first may be old.
        """
        if self._has(positions):
            return True
        time.sleep(CONFIRM_S)
        return self._has(positions)

    def _has(self, positions: Mapping[TopicPartition, Position]) -> bool:
        answers = self._read([KafkaPartition(*partition) for partition in positions])
        same = {
            partition
            for answer, (partition, position) in zip(answers, positions.items(), strict=True)
            if (answer.offset, answer.metadata or None) == (position.next_offset, position.metadata)
        }
        self.note({partition: positions[partition] for partition in same})
        # Partitions are compared that are ours after the answer: the new owner of another may have committed
        # the same. All must be equal: the transaction before may have had the same positions of some.
        ours = {partition for partition, one in positions.items() if self.epochs.get(partition) == one.epoch}
        return bool(ours) and ours <= same


def _contains(found: Position, newest: Position) -> bool:
    """Tell whether a commit says that all records are finished of which another one says it."""
    return found.next_offset >= newest.next_offset and says(found, ranges_above(newest, found.next_offset))
