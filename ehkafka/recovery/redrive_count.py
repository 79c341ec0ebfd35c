"""What came of a redrive, counted. A value that its redrive changes and others look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(slots=True)
class RedriveCount:
    """What a redrive did, or would do. `to` counts the redriven by where they went."""

    redriven: int = 0
    # Letters that the filter left out, and records that are no letters.
    passed_over: int = 0
    foreign: int = 0
    to: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        """How many records were dealt with."""
        return self.redriven + self.passed_over + self.foreign

    def count(self, home: TopicPartition | None, *, is_letter: bool) -> None:
        """Count one record; `home` is None where it stays."""
        if home is not None:
            self.redriven += 1
            self.to[home] = self.to.get(home, 0) + 1
        elif is_letter:
            self.passed_over += 1
        else:
            self.foreign += 1
