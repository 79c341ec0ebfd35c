"""From a record to its dead letter: what answers its ticket, and what becomes of a refused letter."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.events import DeadLetterFailed
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.output import Output, OutputRefusedError, outputs_of
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.records import Outcome, TopicPartition
from ehkafka.recovery.letters.letter import Letter
from ehkafka.recovery.letters.target import LetterTopic
from tests.kit.events import Events
from tests.kit.simulated.message import SimulatedMessage

ORIGIN = TopicPartition("t", 0)
TOO_LARGE = OutputRefusedError("too large", KafkaError.MSG_SIZE_TOO_LARGE)


class Lab:
    """A target of dead letters; what is put is acknowledged or refused by the test."""

    def __init__(self, **options: Any) -> None:
        self.events = Events()
        self.answers: list[tuple[int, Any]] = []
        self.outputs = Unacknowledged()
        self.epoch = Epoch(ORIGIN, 1, {})
        self.target: Any = LetterTopic("dead", self.outputs, problem=lambda: None, **self.common, **options)

    @property
    def common(self) -> dict[str, Any]:
        """What each target is given."""
        return {"emit": self.events.append, "clock": time.monotonic}

    def answer(self, offset: int, answer: Any) -> None:
        """Take an answer."""
        self.answers.append((offset, answer))

    def post(self, offset: int, headers: Any = (), epoch: Epoch | None = None) -> None:
        """Post the letter of a record."""
        entry = (SimulatedMessage("t", 0, offset, b"k", b"v"), b"k", 1, epoch or self.epoch)
        letter = Letter(ORIGIN, offset, b"k", b"%d" % offset, list(headers))
        self.target.post(entry, letter, partial(self.answer, offset))

    @property
    def put(self) -> list[Output]:
        """What is put."""
        return list(outputs_of(self.outputs.added))

    def refuse(self, error: OutputRefusedError) -> list[float | None]:
        """Have the first letter that is put refused; return what the sender is answered."""
        answers: list[float | None] = []
        output = self.put[0]
        assert not output.source.takes_refusals  # type: ignore[union-attr]
        output.origin.judge(output, error, 1, answers.append)
        return answers

    @property
    def reports(self) -> list[float | None]:
        """When each refused letter goes again."""
        return [event.retry_s for event in self.events.of(DeadLetterFailed)]


@pytest.fixture
def lab() -> Lab:
    """Return a topic at least once."""
    return Lab()


def test_exactly_once_a_record_has_its_answer_when_its_letter_is_put() -> None:
    """Neither the letter nor the offset counts before their transaction does."""
    refused: list[str] = []
    lab = Lab(refused=lambda where, error: refused.append(f"{where}: {error}"))
    seen: list[int] = []
    lab.events.append = lambda _event: seen.append(len(lab.put))  # type: ignore[method-assign]
    lab.target.emit = lab.events.append
    lab.post(1)
    lab.put[0].source.acknowledged()  # type: ignore[union-attr]
    assert (lab.answers, seen) == ([(1, Outcome.DEAD_LETTERED)], [1])
    assert lab.refuse(OutputRefusedError("no value")) == []
    assert refused == ["t[0]@1: no value"]
    assert len(lab.answers) == 1


@pytest.mark.parametrize(
    "error", [TOO_LARGE, OutputRefusedError("no value"), OutputRefusedError("no", KafkaError.INVALID_RECORD)]
)
def test_what_no_broker_takes_is_given_back_to_be_held(lab: Lab, error: OutputRefusedError) -> None:
    """Reported once, without a retry; it is not sent again."""
    lab.post(1)
    assert lab.refuse(error) == [None]
    ((offset, held),) = lab.answers
    assert isinstance(held, HoldHead)
    assert (offset, held.letter_refused) == (1, True)
    assert "the dead-letter topic dead refuses its dead letter" in held.reason
    assert ("azure" in held.reason or "property" in held.reason) == error.is_too_large
    assert lab.reports == [None]


def test_a_letter_that_is_too_large_loses_its_errors_text_first(lab: Lab) -> None:
    """Nothing of the record; the log has the text. It is the same output, in its place."""
    lab.post(1, headers=[("own", b"1"), ("ehkafka-error-text", b"x" * 100), ("ehkafka-group", b"g")])
    for length in (10, 1, 0):
        assert lab.refuse(TOO_LARGE) == [0.0]
        (again,) = lab.put
        assert dict(again.headers) == {
            "own": b"1",
            "ehkafka-error-text": b"x" * length,
            "ehkafka-group": b"g",
        }
    assert (lab.answers, lab.reports) == ([], [])
    lab.put[0].source.acknowledged()  # type: ignore[union-attr]
    assert lab.answers == [(1, Outcome.DEAD_LETTERED)]
