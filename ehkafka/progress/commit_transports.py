"""How positions reach the broker: by a member's consumer, from outside of the group, or in a transaction.

The last one is in `transactions.committing`. And what a refusal means.
"""

from __future__ import annotations

import enum
import math
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition

    # The error of the whole request, and the partitions, each with its own error.
    Answer = tuple[KafkaError | None, Sequence[KafkaPartition]]
    # Waits so many seconds at most, None: as long as it takes; None: there is no answer by then. Any thread.
    Wait = Callable[[float | None], Answer | None]


class CommitTransport(Protocol):
    """Carries commits out, one at a time."""

    def chosen(self, positions: Mapping[TopicPartition, Position], /) -> Mapping[TopicPartition, Position]:
        """Return which of these positions the next one may have."""

    def begin(self, consumer: Consumer, positions: Mapping[TopicPartition, Position], /) -> None:
        """Start one. Raises `KafkaException` where that is refused at once."""

    def ready(self, consumer: Consumer, positions: Mapping[TopicPartition, Position], /) -> Wait:
        """Return what carries one out and waits for its answer. On the poll thread."""

    def answers(self) -> Sequence[Answer]:
        """Return the answers to those that were started, unless they come by the consumer's `on_commit`."""

    def settle(self, timeout_s: float | None, /) -> bool:
        """Wait until none that was started can take outputs along; False: one still may."""


class ConsumerCommits:
    """By the consumer itself, a member of its group."""

    def chosen(self, positions: Mapping[TopicPartition, Position]) -> Mapping[TopicPartition, Position]:
        """Return all of them."""
        return positions

    def begin(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> None:
        """Start an asynchronous commit, which the consumer's `on_commit` hears of."""
        # Offsets are always named: a bare `commit()` takes what `consume()` handed out last, which no handler
        # may have seen yet.
        consumer.commit(offsets=_as_offsets(positions), asynchronous=True)

    def ready(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> Wait:
        """Return a call that commits synchronously.

        Without a time on the caller's thread, for rebalance callbacks: confluent-kafka lets one thread at a
        time into a consumer, and the poll thread is inside as long as its callback runs. librdkafka gives up
        when the coordinator stays away for a session time-out, or an answer for `socket.timeout.ms`.
        """

        def now() -> Answer:
            try:
                stored = consumer.commit(offsets=_as_offsets(positions), asynchronous=False)
            except Exception as failed:
                return _refusal(failed), ()
            return None, stored or ()

        return lambda timeout_s: now() if timeout_s is None else _within(now, timeout_s)

    def answers(self) -> Sequence[Answer]:
        """Return none: `on_commit` hears them."""
        return ()

    def settle(self, _timeout_s: float | None) -> bool:
        """Return True: no commit of a consumer has outputs."""
        return True


class OutsideCommits(ConsumerCommits):
    """By a consumer that is no member of the group, as of a run on Spark and of `ehkafka offsets`.

    It has neither records nor rebalances, so the thread that waits may poll it: a wait has an end
    without a thread. `on_commit` is the consumer's.
    """

    def __init__(self, listen: Callable[[Any, float], KafkaError | None] | None = None) -> None:
        """`listen` polls a consumer for so long, and returns the error that stands for an answer, if any."""
        self._listen = listen or _listen
        # Those that no call has taken.
        self._answers: list[Answer] = []

    def on_commit(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        """Take an answer. Called by librdkafka while the consumer is polled."""
        self._answers.append((error, partitions))

    def ready(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> Wait:
        """Return a call that commits asynchronously, and polls until it is answered."""
        wanted = {partition: position.next_offset for partition, position in positions.items()}

        def now(timeout_s: float | None) -> Answer | None:
            ends_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
            try:
                self.begin(consumer, positions)
            except Exception as failed:
                return _refusal(failed), ()
            while (answer := self._take(wanted)) is None and time.monotonic() < ends_s:
                if (error := self._listen(consumer, POLL_S)) is not None:
                    return error, ()
            return answer

        return now

    def answers(self) -> Sequence[Answer]:
        """Return the answers that no call has taken."""
        taken, self._answers = self._answers, []
        return taken

    def _take(self, wanted: Mapping[TopicPartition, int]) -> Answer | None:
        """Return the answer that names these offsets: one of an earlier commit may be late."""
        for place, (_, partitions) in enumerate(self._answers):
            if {(one.topic, one.partition): one.offset for one in partitions} == wanted:
                return self._answers.pop(place)
        return None


# The longest poll while an answer is waited for.
POLL_S: Final = 0.005


def _listen(consumer: Any, timeout_s: float) -> KafkaError | None:
    consumer.consume(1, timeout_s)
    return None


def _refusal(failed: Exception) -> KafkaError:
    """Return the error of a call; an exception of any other kind, as of a closed client, is one as well."""
    if isinstance(failed, KafkaException):
        return failed.args[0]  # type: ignore[no-any-return]
    return KafkaError(ClientCode.STATE, repr(failed))


def _within(now: Callable[[], Answer], timeout_s: float) -> Answer | None:
    """Call on a thread of its own, for librdkafka's synchronous commit knows no time-out.

    The caller reports: an answer that comes later is dropped, and the next owner reads what was stored.
    """
    answer: list[Answer] = []
    waiter = threading.Thread(target=lambda: answer.append(now()), name="ehkafka-final-commit", daemon=True)
    waiter.start()
    waiter.join(timeout_s)
    return answer[0] if answer else None


def _as_offsets(positions: Mapping[TopicPartition, Position]) -> list[KafkaPartition]:
    return [as_offset(partition, position) for partition, position in positions.items()]


def as_offset(partition: TopicPartition, position: Position) -> KafkaPartition:
    """Return a position as confluent-kafka takes and returns it."""
    optional: dict[str, Any] = {}  # the C constructor takes no None
    if position.metadata is not None:
        optional["metadata"] = position.metadata
    if position.leader_epoch is not None:
        optional["leader_epoch"] = position.leader_epoch
    return KafkaPartition(partition.topic, partition.partition, position.next_offset, **optional)


class CommitError(enum.Enum):
    """The consequences of a refused commit for its partitions."""

    # The coordinator is busy, moving or away, or the reason is unknown: stay dirty, try again later.
    RETRY = "retry"
    # The group rebalances, and this member may have the next generation soon: stay dirty, try again after
    # the join. If it does not rebalance, librdkafka reports the partitions as lost.
    REJOIN = "rejoin"
    # The group no longer knows this member: librdkafka rejoins, the partitions are lost.
    LOST = "lost"
    # Another process took our `group.instance.id`: stop.
    FENCED = "fenced"
    # The metadata is longer than the broker takes: commit without it.
    METADATA = "metadata"
    # We may not commit: stop, waiting does not fix it.
    DENIED = "denied"


_CLASSES = {
    KafkaError.REBALANCE_IN_PROGRESS: CommitError.REJOIN,
    KafkaError.ILLEGAL_GENERATION: CommitError.REJOIN,
    KafkaError.UNKNOWN_MEMBER_ID: CommitError.LOST,
    ClientCode.ASSIGNMENT_LOST: CommitError.LOST,
    KafkaError.FENCED_INSTANCE_ID: CommitError.FENCED,
    ClientCode.FENCED: CommitError.FENCED,
    KafkaError.OFFSET_METADATA_TOO_LARGE: CommitError.METADATA,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: CommitError.DENIED,
    KafkaError.GROUP_AUTHORIZATION_FAILED: CommitError.DENIED,
    KafkaError.INVALID_GROUP_ID: CommitError.DENIED,
}


def classify(error: KafkaError) -> CommitError:
    """Return the class of an error; what is not known is worth another try."""
    return _CLASSES.get(error.code(), CommitError.RETRY)
