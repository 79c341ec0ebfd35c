"""Where logs end is asked once for each partition, and again only where the broker gave no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from ehkafka.events import ConnectionProblem
from ehkafka.intake.until_caught_up import ASK_AGAIN_S, ASK_S, CatchUpEnds
from ehkafka.positions.gap import LogBounds
from ehkafka.records import TopicPartition
from tests.kit.clock import VirtualClock
from tests.kit.events import Events

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition as KafkaPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """A consumer that says where logs begin and end, unless it is to fail."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.fails = False
        self.asked: list[tuple[int, float]] = []

    def offsets_for_times(self, partitions: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Answer, or time out."""
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        for one in partitions:
            self.asked.append((one.partition, timeout))
            one.offset = 2 if one.offset == OFFSET_BEGINNING else self.end
        return partitions


def test_an_end_stays_as_it_was_when_its_partition_first_came() -> None:
    """A partition that goes and comes back is asked about no more, nor one that was known before."""
    events, logs = Events(), Logs(10)
    ends = CatchUpEnds({P1: LogBounds(0, 4)}, emit=events.append, clock=VirtualClock().now_s)
    ends.ask(logs, [P0, P1])  # type: ignore[arg-type]
    logs.end = 20
    ends.ask(logs, [P0, P1])  # type: ignore[arg-type]
    assert ends.logs == {P0: LogBounds(2, 10), P1: LogBounds(0, 4)}
    assert [partition for partition, _ in logs.asked] == [0, 0]
    assert logs.asked[1][1] <= logs.asked[0][1] == ASK_S  # both answers share the time


def test_who_gets_no_answer_asks_again_after_a_while() -> None:
    """It is reported, and the poll thread does not spend its time on it."""
    events, logs, clock = Events(), Logs(10), VirtualClock()
    logs.fails = True
    ends = CatchUpEnds({}, emit=events.append, clock=clock.now_s)
    ends.ask(logs, [P0])  # type: ignore[arg-type]
    logs.fails = False
    ends.ask(logs, [P0])  # type: ignore[arg-type]
    assert P0 not in ends.logs
    clock.advance(ASK_AGAIN_S)
    logs.fails = True
    ends.ask(logs, [P0])  # type: ignore[arg-type]
    logs.fails = False
    clock.advance(ASK_AGAIN_S)
    ends.ask(logs, [P0])  # type: ignore[arg-type]
    assert P0 not in ends.logs
    clock.advance(ASK_AGAIN_S)
    ends.ask(logs, [P0])  # type: ignore[arg-type]
    assert ends.logs[P0].end == 10
    problem, _ = events.of(ConnectionProblem)
    assert "where the logs end is not known yet" in problem.sentence()
    assert not problem.fatal


def test_nobody_is_asked_without_a_reason() -> None:
    """A cooperative member's assignment may add nothing."""
    logs: Any = Logs(10)
    CatchUpEnds({}, emit=Events().append, clock=VirtualClock().now_s).ask(logs, [])
    assert logs.asked == []
