"""Where logs end is asked once for each partition; where there was no answer a later one counts."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from ehkafka.intake.until_caught_up import ASK_S, CatchUpEnds
from ehkafka.positions.gap import LogBounds
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """A consumer that says where logs begin and end, unless it is to fail."""

    def __init__(self) -> None:
        self.end, self.fails = 10, False
        self.asked: list[tuple[int, float]] = []

    def offsets_for_times(self, partitions: list[Any], timeout: float) -> list[Any]:
        """Answer, or time out."""
        for one in partitions:
            self.asked.append((one.partition, timeout))
            one.offset = 2 if one.offset == OFFSET_BEGINNING else self.end
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return partitions


@pytest.mark.parametrize("fails", [False, True])
def test_the_first_answer_stays(*, fails: bool) -> None:
    """A partition that goes and comes back is asked about no more, nor one that was known before."""
    logs: Any = Logs()
    ends = CatchUpEnds({P1: LogBounds(0, 4)})
    ends.ask(logs, [P1])
    assert logs.asked == []
    logs.fails = fails
    ends.ask(logs, [P0, P1])
    assert (P0 in ends.logs) is not fails
    ends.note({P0: LogBounds(2, 10)})
    ends.note({P0: LogBounds(2, 30), P1: LogBounds(2, 30)})
    ends.ask(logs, [P0, P1])
    assert ends.logs == {P0: LogBounds(2, 10), P1: LogBounds(0, 4)}
    assert {partition for partition, _ in logs.asked} == {0}
    assert all(timeout_s <= ASK_S for _, timeout_s in logs.asked)  # both answers share the time
