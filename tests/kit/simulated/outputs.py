"""What simulated handlers send: values that say what they are of, in all forms that an output has.

A call's outputs come one by one: some while it runs, the last before its record ends. What a failed call has
sent is void.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.outputs.book import NotSentError
from ehkafka.outputs.claim import Claim, Output, SingleOutput

from ehkafka.outputs.checked import ANY_PARTITION
from ehkafka.records import TopicPartition
from ehkafka.transactions.letters import LetterOutput

if TYPE_CHECKING:
    import random

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.records import Message
    from ehkafka.transactions.book import TransactionBook

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
    """One member's way out: what its handlers' calls send, into the book."""

    topic = "out"

    def __init__(self, name: str, book: TransactionBook, rng: random.Random, refuse_share: float) -> None:
        self._name = name
        self._book = book
        self._rng = rng
        self._refuse_share = refuse_share
        # Calls that have sent something while they run.
        self._open: dict[tuple[TopicPartition, int, int], tuple[Claim, str]] = {}
        self._calls = itertools.count()

    def begin(self, epoch: Epoch, message: Message, attempt: int) -> None:
        """Note that a call begins; now and then it sends the first of two outputs."""
        place = epoch.partition, epoch.number, message.offset()
        self._fail(place)
        if self._rng.random() < 0.7:
            return
        claim = Claim(self, ((epoch, message.offset()),), message, attempt)  # type: ignore[arg-type]
        call = self._call(epoch)
        self._open[place] = claim, call
        self._add(claim, message, epoch, 0, 2, call, refused=0)

    def end(self, epoch: Epoch, message: Message, outcome: str) -> None:
        """Send the rest of a call's outputs, before its record has its outcome."""
        place = epoch.partition, epoch.number, message.offset()
        if outcome == "failed":
            self._fail(place)
            return
        if outcome != "finished":
            self._fail(place)
            self.add_letter(epoch, message, self._call(epoch))
            return
        claim, call = self._open.pop(place, (None, ""))
        refused = self._rng.randint(1, 6) if self._rng.random() < self._refuse_share else 0
        if claim is not None:
            self._add(claim, message, epoch, 1, 2, call, refused=refused)
            claim.is_over = True
        else:
            self._add_only(epoch, message, refused)

    def _fail(self, place: tuple[TopicPartition, int, int]) -> None:
        claim, _ = self._open.pop(place, (None, ""))
        if claim is not None:
            claim.has_failed = claim.is_over = True

    def _call(self, epoch: Epoch) -> str:
        return f"{self._name}/{epoch.number}/{next(self._calls)}"

    def _add(
        self,
        claim: Claim,
        message: Message,
        epoch: Epoch,
        number: int,
        total: int,
        call: str,
        *,
        refused: int,
    ) -> None:
        key = message.key()
        value = self._value(epoch, message, number, total, call, refused)
        output = Output(claim, self.topic, value, key, None, ANY_PARTITION, len(value))
        with suppress(NotSentError):
            self._book.add(claim, [output])

    def _add_only(self, epoch: Epoch, message: Message, refused: int) -> None:
        key = message.key()
        value = self._value(epoch, message, 0, 1, self._call(epoch), refused)
        with suppress(NotSentError):
            if key and self._rng.random() < 0.7:
                self._book.add_plain((self, epoch, message, key, value, None))  # type: ignore[arg-type]
                return
            outlet: Any = self
            single = SingleOutput(outlet, epoch, message, self.topic, value, key, None, len(value))
            self._book.add_single(single)

    def _value(
        self, epoch: Epoch, message: Message, number: int, total: int, call: str, refused: int
    ) -> bytes:
        place = epoch.partition, message.offset()
        return SentOutput(*place, number, total, call, refused, message.key()).written()

    def add_letter(self, epoch: Epoch, message: Message, call: str) -> None:
        """Send a dead letter instead; it is of the record like any output."""
        value = self._value(epoch, message, LETTER, 1, call, 0)
        letter: Any = SimpleNamespace(offset=message.offset(), key=message.key(), value=value, headers=())
        self._book.add_letter(LetterOutput("letters", letter, epoch))
