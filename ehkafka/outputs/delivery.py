"""How a run delivers outputs, and which offsets it may commit: at least once, or exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping, Sequence

    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.records import TopicPartition


class Delivery(ABC):
    """Delivers outputs and dead letters to topics. The runtime starts and stops it, the poll thread asks."""

    # True: an epoch's last commit includes outputs, so the rest is dropped after it. False: no commit passes
    # an unacknowledged output, so the rest is dropped before the last commit.
    is_exactly_once = False
    # Called with topic, record and error if a dead letter is refused permanently; None: its record is held.
    refuse_letter: Callable[[str, str, str], None] | None = None

    def __init__(self, outputs: Unacknowledged) -> None:
        self.outputs = outputs
        # The app stops because of an output or the sender: nothing waits for acknowledgements any more. Set
        # once, by the thread that decides it.
        self.has_failed = False

    @abstractmethod
    def start(self) -> None:
        """Open the producer and start sending. Raises `ConfigurationError` or `EndpointError`."""

    @abstractmethod
    def stop(self, timeout_s: float) -> object:
        """Stop; records whose outputs are not acknowledged by then are handled again."""

    @abstractmethod
    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""

    def wake(self) -> None:  # noqa: B027 - transactions look at each commit tick
        """Check at once whether refused outputs are due: the clock has jumped."""

    @property
    @abstractmethod
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it. Any thread."""

    @abstractmethod
    def is_over_bound(self) -> bool:
        """Tell whether so many outputs wait that nothing more should be received."""

    def lost(self) -> None:  # noqa: B027 - nothing to be done where the consumer commits
        """All partitions are lost: commit nothing for them. Called before their epochs end."""

    def undecided(self) -> Collection[TopicPartition]:
        """Return the partitions of which a commit is not decided: an epoch of them must not begin yet."""
        return ()

    def is_old(self, partition: TopicPartition, commit: KafkaPartition | None) -> bool:  # noqa: ARG002
        """Tell whether the group's commit, as it was answered, is older than one that we made."""
        return False

    @abstractmethod
    def waiting_epochs(self) -> set[Epoch]:
        """Return the epochs with outputs for which a stop or revoke waits."""

    @abstractmethod
    def lowest(self) -> Mapping[Epoch, int]:
        """Return the offset of each epoch where commits stop.

        At least once it is the lowest with an unacknowledged output, exactly once the lowest with a refused
        output that waits for its decision or its next try.
        """

    @abstractmethod
    def end(self, epochs: Sequence[Epoch], timeout_s: float, /) -> None:
        """Send nothing more for epochs that have ended; waits for that, at most `timeout_s`."""
