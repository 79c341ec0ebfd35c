"""A refused output whose record becomes a letter: what is answered when its partition is taken away."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.encoding import ANY_PARTITION
from ehkafka.outputs.output import BatchSource, Output, OutputRefusedError, outputs_of
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.letters.target import LetterTopic
from ehkafka.recovery.policy import DeadLetter
from ehkafka.recovery.refused_outputs import RefusedOutputs
from ehkafka.recovery.retry import Retry
from tests.kit.events import Events
from tests.kit.simulated.message import SimulatedMessage

TOO_LARGE = OutputRefusedError("too large", KafkaError.MSG_SIZE_TOO_LARGE)


class Lab:
    """The rules of a handler whose records become letters, and what they answer."""

    def __init__(self) -> None:
        self.events = Events()
        self.outputs = Unacknowledged()
        self.epochs = [Epoch(TopicPartition("t", number), 1, {}) for number in range(2)]
        self.answers: list[float | None] = []
        common: dict[str, Any] = {"emit": self.events.append, "clock": time.monotonic}
        # As exactly once: a letter that is put is as good as written.
        target = LetterTopic("dead", self.outputs, problem=lambda: None, refused=lambda *_: None, **common)
        self.rules = RefusedOutputs(
            handler="handle",
            policy=DeadLetter("dead"),
            retry=Retry(attempts=1),
            emit=self.events.append,
            fatal=self.fail,
            make_record=Record,
            raw=False,
            group="g",
            target=target,
            outputs=self.outputs,
        )

    def fail(self, error: Exception) -> None:
        """Let nothing end the run."""
        raise error

    def refuse(self, *partitions: int) -> list[float | None]:
        """Refuse an output of a record of each partition; return what is answered."""
        entries = [
            (SimulatedMessage("t", number, 7, b"k", b"v"), b"k", 1, self.epochs[number])
            for number in partitions
        ]
        source = BatchSource(entries) if len(entries) > 1 else entries[0]
        output = Output(self.rules, source, "out", b"v", b"k", None, ANY_PARTITION)  # type: ignore[arg-type]
        self.rules(output, TOO_LARGE, 1, self.answers.append)
        return self.answers

    @property
    def letters(self) -> list[str]:
        """Where the letters are from that are put."""
        return [f"{one.entries[0][-1].partition}" for one in outputs_of(self.outputs.added)]


def test_an_output_is_not_needed_any_more_once_its_letters_are_safe() -> None:
    """Each record of it has one."""
    lab = Lab()
    assert lab.refuse(0, 1) == [None]
    assert lab.letters == ["t[0]", "t[1]"]


def test_without_its_letter_an_output_is_never_said_to_be_not_needed() -> None:
    """Its epoch has ended, and its last commit, which is refused, would take the record without a letter."""
    lab = Lab()
    lab.epochs[0].ended = True
    assert lab.refuse(0) == []
    assert lab.letters == []


@pytest.mark.parametrize("gone", [0, 1])
def test_an_output_of_several_records_is_over_once_the_letters_of_those_that_are_left_are_safe(
    gone: int,
) -> None:
    """Else it would wait for ever: it stays as long as one of its partitions is ours."""
    lab = Lab()
    lab.epochs[gone].ended = True
    assert lab.refuse(0, 1) == [None]
    assert lab.letters == [f"t[{1 - gone}]"]
