"""Whether the broker returns the metadata of commits is asked once, and not on the poll thread."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.positions.log_asker import _COMMITTED_S, LogAsker
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.run.mirroring import READ_BACK_TRIES, ReadBack

T0 = TopicPartition("t", 0)


class Broker:
    """Opens consumers that answer as scripted; an error is raised."""

    def __init__(self, *answers: tuple[int, str] | KafkaError) -> None:
        self.answers = list(answers)
        self.opened = self.closed = 0
        self.reported: list[bool] = []
        self.asker = LogAsker(TopicIds(None), self.open)
        self.read_back = ReadBack(self.asker, self.reported.append)

    def open(self) -> Any:
        """Open one."""
        self.opened += 1
        return self

    def committed(self, partitions: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Answer for one partition."""
        assert timeout in _COMMITTED_S
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        [asked] = partitions
        return [KafkaPartition(asked.topic, asked.partition, answer[0], metadata=answer[1])]

    def close(self) -> None:
        """Close one."""
        self.closed += 1

    def acknowledge(self, next_offset: int, text: str | None = "said") -> None:
        """Let a commit be acknowledged, and the question be answered."""
        self.read_back.acknowledged({T0: Position(1, next_offset, None, text)})
        assert self.read_back.wait(10.0)


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no asking thread outlive its test."""
    monkeypatch.setattr("ehkafka.positions.log_asker.IDLE_S", 0.01)


@pytest.mark.parametrize(
    ("answer", "is_returned"), [((5, "ehk2.x"), True), ((5, ""), False), ((9, "ehk2.y"), True)]
)
def test_one_answer_is_enough(answer: tuple[int, str], *, is_returned: bool) -> None:
    """The very commit, or any that has metadata; nothing is left open, and nothing is asked again."""
    broker = Broker(answer)
    broker.acknowledge(4, None)  # what was not written cannot be read back
    for next_offset in (5, 6, 7):
        broker.acknowledge(next_offset)
    assert broker.reported == [is_returned]
    assert (broker.opened, broker.closed) == (1, 1)


def test_a_later_bare_commit_tells_nothing() -> None:
    """It may be another program's, so the next one is asked for."""
    broker = Broker((8, ""), (9, ""))
    broker.acknowledge(5)
    assert broker.reported == []
    broker.acknowledge(9)
    assert broker.reported == [False]


def test_a_broker_that_does_not_answer_leaves_it_unknown() -> None:
    """After a few tries it is left alone for this run."""
    broker = Broker(*[KafkaError(KafkaError._TIMED_OUT)] * 27)
    for next_offset in range(9):
        broker.acknowledge(next_offset)
    assert (broker.reported, broker.opened, broker.closed) == ([], READ_BACK_TRIES, READ_BACK_TRIES)
