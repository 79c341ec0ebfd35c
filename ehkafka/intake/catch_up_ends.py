"""Where the logs end that a run has to catch up with: asked when a partition is ours for the first time.

On the poll thread, with the run's own consumer, inside the assign callback: before anything of the partition
is fetched, so that what handlers make of its first records is not counted. What is not answered in a moment
is asked again at the slow check, and handlers go on meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.events import ConnectionProblem
from ehkafka.positions.log_bounds import log_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.events import Event
    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition

# An answer is waited for so long (there are two), and the next question comes after so long, doubled each
# time: the poll thread has more to do than to wait for a partition without a leader.
ASK_S: Final = 1.0
ASK_AGAIN_S: Final = 2.0
ASK_AGAIN_S_MAX: Final = 30.0


class CatchUpEnds:
    """By partition, for as long as the run lasts: a partition that comes back has the end that it had."""

    def __init__(
        self,
        known: Mapping[TopicPartition, LogBounds],
        *,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        """`known` are asked no more."""
        # Replaced, never changed: the snapshot reads it, from any thread.
        self.logs: Mapping[TopicPartition, LogBounds] = dict(known)
        self._emit = emit
        self._clock = clock
        self._ask_at_s = float("-inf")
        self._again_s = ASK_AGAIN_S

    def ask(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Ask where those end of which it is not known. Raises nothing."""
        unknown = [partition for partition in partitions if partition not in self.logs]
        if not unknown or self._clock() < self._ask_at_s:
            return
        try:
            self.logs = {**self.logs, **log_bounds(consumer, unknown, ASK_S)}
        except KafkaException as error:
            self._ask_at_s = self._clock() + self._again_s
            self._again_s = min(2 * self._again_s, ASK_AGAIN_S_MAX)
            text = f"where the logs end is not known yet: {describe_error(error.args[0])}"
            self._emit(ConnectionProblem(error.args[0].name(), text, fatal=False))
