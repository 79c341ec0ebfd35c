"""How a run delivers what handlers send, and which commits may pass: at least once, or exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.kinds import TopicKinds
    from ehkafka.outputs.unacknowledged import Unacknowledged


class Delivery(ABC):
    """Of outputs and of dead letters to topics. The runtime starts and stops it, the poll thread asks it."""

    # True: an epoch's last commit takes outputs along, so they are dropped after it. False: no commit passes
    # them, so they are dropped before it.
    is_exactly_once = False

    def __init__(self, outputs: Unacknowledged, kinds: TopicKinds) -> None:
        self.outputs = outputs
        self.kinds = kinds
        # The app stops because of an output or of its sender: nothing waits for acknowledgements. Set once,
        # by the thread that decides on it.
        self.has_failed = False

    @abstractmethod
    def start(self) -> None:
        """Open the producer and start sending. Raises `ConfigurationError` or `EndpointError`."""

    @abstractmethod
    def stop(self, timeout_s: float) -> object:
        """Stop; the records of what is not acknowledged by then are handled again."""

    @abstractmethod
    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""

    def wake(self) -> None:  # noqa: B027 - nothing to be done by what looks at each commit
        """Look at once whether refused outputs are due: the time has jumped."""

    @property
    @abstractmethod
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it. Any thread."""

    @abstractmethod
    def is_over_bound(self) -> bool:
        """Tell whether there is so much that nothing more should be received."""

    def lost(self) -> None:  # noqa: B027 - nothing to be done where the consumer commits
        """Hear that all partitions are lost, before their epochs end: nothing may be committed for them."""

    @abstractmethod
    def waiting_epochs(self) -> set[Epoch]:
        """Return whose records wait for their outputs, where it is of use to wait."""

    @abstractmethod
    def lowest(self) -> Mapping[Epoch, int]:
        """Return the lowest offset of each epoch that must not be committed for its outputs."""

    @abstractmethod
    def end(self, epochs: Sequence[Epoch], timeout_s: float, /) -> None:
        """Let nothing be sent any more for epochs that have ended; waits at most so long until it is so."""
