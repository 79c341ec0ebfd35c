"""Delivery at least once: the consumer commits what has its outputs and letters acknowledged.

Made before any thread of the run exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.outputs.delivery import Delivery
from ehkafka.outputs.kinds import TopicKinds
from ehkafka.progress.commits import CONSUMER_COMMITS
from ehkafka.recovery.letters.target import LetterTopic
from ehkafka.run.output_sender import output_sender

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.sender import OutputSender
    from ehkafka.progress.commits import Commits
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from ehkafka.run.options import AppOptions


class AtLeastOnce(Delivery):
    """One sender delivers; its thread runs from the start of a run to its end."""

    def __init__(
        self,
        app: AppOptions,
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        sender_of: Callable[[], OutputSender] | None = None,
    ) -> None:
        """`sender_of` gives a sender that may run already."""
        self._emit = emit
        self._clock = app.clock.now_s
        self._on_death = on_death
        self._sender = sender_of() if sender_of is not None else output_sender(app, emit, self._died)
        super().__init__(self._sender.outputs, TopicKinds((spec.to for spec in app.specs), emit))

    def letters_to(self, topic: str) -> LetterTopic:
        """Return a topic for a handler's dead letters."""
        return LetterTopic(
            topic, self.outputs, problem=lambda: self.problem, emit=self._emit, clock=self._clock
        )

    def commits(self, _ledger: CommitLedger, _epochs: Mapping[TopicPartition, int]) -> Commits:
        """Return what commits: the consumer."""
        return CONSUMER_COMMITS

    def start(self) -> None:
        """Start the sender."""
        self._sender.start()

    def stop(self, timeout_s: float) -> None:
        """Stop the sender."""
        self._sender.stop(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the sender's."""
        return self._sender.owns(thread)

    def wake(self) -> None:
        """Let the sender look."""
        self._sender.wake()

    @property
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it. Any thread."""
        return self._sender.problem

    def is_over_bound(self) -> bool:
        """Tell whether the sender is behind."""
        return self.outputs.is_behind()

    def waiting_epochs(self) -> set[Epoch]:
        """Return the epochs with outputs that may still be acknowledged; none after a failure."""
        return set() if self.has_failed else self.outputs.waiting_epochs()

    def lowest(self) -> dict[Epoch, int]:
        """Return the lowest offset of each epoch whose outputs are not acknowledged."""
        return self.outputs.lowest()

    def end(self, _epochs: Sequence[Epoch], timeout_s: float) -> None:
        """Have the sender drop what is of ended epochs."""
        self._sender.end(timeout_s)

    def _died(self, error: BaseException) -> None:
        # First: what stops because of it must not wait for acknowledgements.
        self.has_failed = True
        self._on_death(error)
