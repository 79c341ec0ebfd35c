"""What simulated handlers send: values that say what they are of, in all forms that an output has.

A call's outputs are put together once it has ended, before its record ends; a call that fails puts none.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.encoding import ANY_PARTITION
from ehkafka.outputs.output import EntrySource
from ehkafka.outputs.unacknowledged import NotSentError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    import random

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Answer, Output, OutputRefusedError
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from tests.kit.clock import VirtualClock

LETTER = -1


class SentOutput(NamedTuple):
    """An output as the broker has it: of which record, which of how many of its call; -1: a dead letter."""

    partition: TopicPartition
    offset: int
    number: int
    total: int
    call: str
    # How often the broker refuses it.
    refused: int
    key: bytes | None

    @classmethod
    def read(cls, key: bytes | None, value: bytes) -> SentOutput:
        """Return what a value says."""
        topic, partition, offset, number, total, call, refused = value.decode().split("|")
        place = TopicPartition(topic, int(partition)), int(offset)
        return cls(*place, int(number), int(total), call, int(refused), key)

    def written(self) -> bytes:
        """Return it as a value."""
        return "|".join(map(str, (*self.partition, *self[1:6]))).encode()


class SimulatedOutlet:
    """One member's way out: what its handlers' calls send, and what becomes of what is refused."""

    topic = "out"

    def __init__(
        self,
        name: str,
        outputs: Unacknowledged,
        clock: VirtualClock,
        rng: random.Random,
        refuse_share: float,
    ) -> None:
        self._name = name
        self._outputs = outputs
        self._clock = clock
        self._rng = rng
        self._refuse_share = refuse_share
        self._calls = itertools.count()

    def end(self, entry: Entry, outcome: str) -> None:
        """Put a call's outputs, before its record has its outcome; now and then it has two."""
        if outcome == "failed":
            return
        call = f"{self._name}/{entry[EPOCH].number}/{next(self._calls)}"
        if outcome != "finished":
            self.add_letter(entry, call)
            return
        total = 1 if self._rng.random() < 0.7 else 2
        refused = self._rng.randint(1, 12) if self._rng.random() < self._refuse_share else 0
        values = [
            self._value(entry, number, total, call, refused if number == total - 1 else 0)
            for number in range(total)
        ]
        self._put(entry, self.topic, values)

    def _put(self, entry: Entry, topic: str, values: list[bytes]) -> bool:
        key = entry[MESSAGE].key()
        flat: list[Any] = []
        source = entry if self._rng.random() < 0.8 else EntrySource(entry)
        for value in values:
            flat += (self, source, topic, value, key, None, ANY_PARTITION)
        try:
            self._outputs.put(entry, flat, sum(map(len, values)))
        except NotSentError:
            return False
        return True

    @staticmethod
    def _value(entry: Entry, number: int, total: int, call: str, refused: int) -> bytes:
        message = entry[MESSAGE]
        place = entry[EPOCH].partition, message.offset()
        return SentOutput(*place, number, total, call, refused, message.key()).written()

    def add_letter(self, entry: Entry, call: str) -> bool:
        """Send a dead letter instead, which is of the record like any output; False: its epoch has ended."""
        return self._put(entry, "letters", [self._value(entry, LETTER, 1, call, 0)])

    def judge(self, output: Output, _error: OutputRefusedError, _tries: int, answer: Answer) -> None:
        """Decide on a refused output as a handler's rules do: at once, or later."""

        def decide() -> None:
            if self._rng.random() < 0.6:
                answer(self._rng.uniform(0.0, 0.5))
                return
            assert output.value is not None
            entry: Any = output.source
            if self.add_letter(entry, SentOutput.read(output.key, output.value).call):
                answer(None)

        if self._rng.random() < 0.5:
            decide()
        else:
            self._clock.call_after(self._rng.uniform(0.0, 0.5), decide)
