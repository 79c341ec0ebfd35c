"""What one producer has answered since the sender last looked. The sender's thread only.

Each output writes here itself, inside of `poll`. What is safe stands apart, and needs no look one by one;
from the first answer of another kind on, all stand with the others, in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from ehkafka.outputs.bundle import Apart, Bundle
    from ehkafka.outputs.claim import Output


class Answered:
    """Of one producer: the next one has its own, so that nothing of this one is taken for its."""

    __slots__ = ("apart", "is_plain", "others", "safe")

    def __init__(self) -> None:
        # Nothing but this has come: where each output was written.
        self.is_plain = True
        self.safe: list[Output | Bundle] = []
        # Bundles that were taken apart for an answer.
        self.apart: list[Apart] = []
        # The output, why it was not taken, and where it was written, if that was said.
        self.others: list[tuple[Output, KafkaError | None, int | None]] = []

    def __bool__(self) -> bool:
        return bool(self.safe or self.others)

    def take_apart(self) -> list[Apart]:
        """Return what was taken apart, and forget it. What it was made of is answered like any other."""
        apart, self.apart = self.apart, []
        return apart

    def take_safe(self) -> list[Output | Bundle]:
        """Return what was safe before anything else was answered, and forget it."""
        safe, self.safe = self.safe, []
        return safe

    def take_others(self) -> list[tuple[Output, KafkaError | None, int | None]]:
        """Return the answers from the first one on that was of another kind, and forget them."""
        others, self.others = self.others, []
        return others
