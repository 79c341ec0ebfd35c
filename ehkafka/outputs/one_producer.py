"""What the sender needs of a producer and its successors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class OneProducer(Protocol):
    """One producer at a time; `recovery.letters.producer` has it for dead letters and outputs alike."""

    client: Any

    def start(self, timeout_s: float = ..., /) -> None:
        """Open the first producer, and wait for its id."""

    def serve(self, timeout_s: float, /) -> None:
        """Let callbacks through."""

    def renew(self, *, is_fault: bool = ..., waits: bool = ...) -> None:
        """Give it up; the next one is opened as soon as that is of use, at once where it is no fault.

        With `waits` not at once in any case.
        """

    def open_when_due(self) -> None:
        """Open the next one if its time has come. Raises `EhkafkaError`."""

    def give_up(self, answers_s: float, purge_s: float = ..., /) -> None:
        """Take back what is not answered."""

    def acknowledged(self) -> None:
        """Note that a message is safe."""

    def reported(self) -> None:
        """Note an answer with an error, whatever it says: it has raised the producer's epoch."""

    def failed(self, error: KafkaError, /) -> None:
        """Note an error that is not the message's."""

    def due_s(self) -> float:
        """Return in how many seconds the next one is opened."""

    @property
    def is_lost(self) -> bool:
        """Tell whether it is of no use any more."""

    @property
    def problem(self) -> str | None:
        """Why nothing is acknowledged."""
