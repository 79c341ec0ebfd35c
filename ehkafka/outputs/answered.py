"""What one producer has answered since the sender last looked. The sender's thread only.

Each output writes here itself, inside of `poll`. What is safe stands apart, and needs no look one by one;
from the first answer of another kind on, all stand with the others, in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from ehkafka.outputs.claim import Output


class Answered:
    """Of one producer: the next one has its own, so that nothing of this one is taken for its."""

    __slots__ = ("others", "safe")

    def __init__(self) -> None:
        self.safe: list[Output] = []
        # The output, why it was not taken, and where it was written, if that was said.
        self.others: list[tuple[Output, KafkaError | None, int | None]] = []

    def __bool__(self) -> bool:
        return bool(self.safe or self.others)

    def take_safe(self) -> list[Output]:
        """Return what was safe before anything else was answered, and forget it."""
        safe, self.safe = self.safe, []
        return safe

    def take_others(self) -> list[tuple[Output, KafkaError | None, int | None]]:
        """Return the answers from the first one on that was of another kind, and forget them."""
        others, self.others = self.others, []
        return others
