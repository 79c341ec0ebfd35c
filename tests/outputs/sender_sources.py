"""What outputs are of in a history: epochs, records, and sources that note what they hear."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ehkafka.outputs.output import EntrySource, OutputRefusedError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from tests.outputs.sender_world import World


class Epoch:
    """One assignment of an input partition."""

    def __init__(self, partition: int) -> None:
        self.partition = TopicPartition("in", partition)
        self.ended = False
        self.next_offset = 0


class Record(SimpleNamespace):
    """The message of an entry."""

    def offset(self) -> int:
        """Return its place."""
        return self.at

    def key(self) -> bytes:
        """Return its key."""
        return self.its_key


class Waiter(EntrySource):
    """Hears of its outputs; may take a refusal for its attempt's failure."""

    world: World
    values: list[bytes]
    takes_refusals: bool  # type: ignore[assignment]
    count_acknowledged: int
    end: str | None

    def acknowledged(self, _written: Any = None) -> None:
        """Hear of one more."""
        self.count_acknowledged += 1
        assert self.count_acknowledged <= len(self.values), "acknowledged more often than it has outputs"
        if self.count_acknowledged == len(self.values):
            assert self.end is None or self[3].ended, "hears two ends"
            self.end = "acknowledged"
            missing = [value for value in self.values if value not in self.world.written]
            assert not missing, f"acknowledged and not written: {missing}"

    def refused(self, _error: OutputRefusedError) -> None:
        """Drop all where an attempt fails with its outputs."""
        # Perhaps once more: outputs of another group are refused, too.
        assert self.end != "acknowledged", "hears two ends"
        self.end = "failed"
        self.world.excused.update(self.values)

    def gone(self) -> None:
        """Hear that it is another member's."""
        assert self[3].ended
        self.end = self.end or "gone"


class Given:
    """What the judge knows of an output."""

    def __init__(self, number: int, group: object, source: Any) -> None:
        self.number, self.group, self.source = number, group, source
