"""Gap repair where the broker or librdkafka does not play along, and where several partitions are stuck."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, patch

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.events import ConnectionProblem, OffsetGap
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.intake.repair import RETRY_S, GapRepair
from ehkafka.intake.unreadable import Halted
from ehkafka.lanes.finished import FinishedBefore
from ehkafka.outputs.output import Output
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.positions.log_asker import KnownLogs, Question
from ehkafka.positions.log_states import KnownLog
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from tests.kit.events import Events
from tests.kit.inbox_bench import InboxBench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.positions.finder import Begin

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Consumer:
    """Answers from two logs, notes what is assigned, and fails where it is asked to."""

    def __init__(self) -> None:
        self.logs = {P0: (10, 50), P1: (0, 50)}
        self.consumed = -1001
        self.broken: str | None = None
        self.assigned: list[dict[int, int]] = []
        self.leader_epochs: dict[int, int | None] = {}
        self.unassigned: list[int] = []

    def read_logs(self, groups: Any) -> Question[KnownLogs]:
        """Answer with the bounds of each log, at once."""
        found = KnownLogs({}, {})
        if self.broken == "read_logs":
            found.problems.update({one: "no answer" for group in groups for one in group})
        else:
            found.logs.update({one: KnownLog(*self.logs[one], 0.0) for group in groups for one in group})
        question = Question(found, Mock())
        question.done.set()
        return question

    def position(self, asked: list[Any]) -> list[Any]:
        """Answer with the offset behind what was consumed last."""
        return [KafkaPartition(one.topic, one.partition, self.consumed) for one in asked]

    def assign(self, partitions: list[Any]) -> None:
        """Note it."""
        self._may_fail("assign")
        self.assigned.append({one.partition: one.offset for one in partitions})
        self.leader_epochs = {one.partition: one.leader_epoch for one in partitions}

    incremental_assign = assign

    def pause(self, _partitions: list[Any]) -> None:
        """Fetch no more of them."""

    resume = pause

    def incremental_unassign(self, partitions: list[Any]) -> None:
        """Note it."""
        self.unassigned += [one.partition for one in partitions]

    def _may_fail(self, name: str) -> None:
        if name == self.broken:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Stage:
    """A repair, its two partitions, and what it did."""

    def __init__(self, action: Any, *, cooperative: bool = False) -> None:
        self.consumer = Consumer()
        self.bench = InboxBench()
        self.reported = Events()
        self.lost = 0
        self.fatal: list[Exception] = []
        self.begun: list[int] = []
        self.committed: dict[TopicPartition, Position] = {}
        self.outputs = Unacknowledged()
        self.owned = OwnedPartitions()
        self.unreadable = self.owned.unreadable
        for partition in (P0, P1):
            self.own(self.bench.assign(partition.partition))
        context: Any = SimpleNamespace(
            owned=self.owned, clock=lambda: self.bench.now_s, emit=self.reported.append, history=None,
            count=self._count, fatal=self.fatal.append,
            settings=SimpleNamespace(is_cooperative=cooperative, on_out_of_range=action),
            brokers=SimpleNamespace(asker=self.consumer), flow=FlowControl(FlowLimits()),
            ledger=SimpleNamespace(acknowledged=self.committed.get),
            delivery=SimpleNamespace(outputs=self.outputs),
        )  # fmt: skip
        membership: Any = SimpleNamespace(begin_anew=self._begin_anew, after_assign=lambda *_arguments: None)
        self._repair = GapRepair(context, membership)

    def own(self, epoch: Epoch) -> None:
        """Let a partition have this epoch."""
        route: Any = SimpleNamespace(hub=SimpleNamespace(locked=self._locked))
        self.owned[epoch.partition] = OwnedPartition(route, epoch)

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        yield self.bench.inboxes

    def _count(self, name: str, number: int) -> None:
        assert name == "records_lost"
        self.lost += number

    def _begin_anew(self, begin: Begin) -> None:
        self.begun.append(begin.offset)
        self.bench.inboxes.ending.end([self[begin.partition]])
        fresh = self.bench.assign(begin.partition.partition)
        fresh.received.next_offset = begin.offset
        self.own(fresh)

    def __getitem__(self, partition: TopicPartition) -> Epoch:
        return self.owned[partition].epoch

    def report(
        self,
        partition: TopicPartition = P0,
        *,
        offset: int | None = 3,
        text: str = "out of range",
        was_called: bool = True,
    ) -> None:
        """Let librdkafka report a gap, and take a turn."""
        error = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)
        message: Any = SimpleNamespace(
            topic=lambda: partition.topic, partition=lambda: partition.partition, offset=lambda: offset
        )
        self._repair.note(error, message)
        self.turn(was_called=was_called)

    def replace(self, partition: TopicPartition = P0) -> None:
        """Let the log be another one, and take a turn."""
        self._repair.note_another_log(self.consumer, partition, "it has another id")  # type: ignore[arg-type]
        self.turn()

    def turn(self, *, was_called: bool = True) -> None:
        """Take a turn: one to ask, and one with the answer. `was_called`: the client, in each of them."""
        for _ in range(2):
            self._repair.run(self.consumer, was_called=was_called)  # type: ignore[arg-type]


def _finish_some(epoch: Epoch) -> None:
    """Have an earlier epoch finish some records above the commit, before retention deleted them."""
    epoch.received.finished_before = FinishedBefore([(4, 8), (9, 20)])
    assert epoch.received.unread_below(10) == 2


@pytest.mark.parametrize(
    ("action", "received_next", "report", "resumed_at", "gap"),
    [
        pytest.param("earliest", 3, {}, 10, (3, 7), id="deleted"),
        pytest.param("latest", 3, {}, 50, (3, 47), id="latest skips the rest"),
        # librdkafka had asked for 9 when it failed, but handed out nothing from 3 on.
        pytest.param("earliest", 3, {"offset": 9}, 10, (3, 7), id="thrown away by a pause"),
        pytest.param("earliest", 3, {"before": _finish_some}, 10, (3, 2), id="finished before"),
        pytest.param("earliest", 3, {"consumed": 5, "keys": "a2"}, 10, (5, 5), id="marks are no loss"),
        # A leader that lagged, or a report from before another repair.
        pytest.param("stop", 20, {"offset": 20}, 20, None, id="in the log after all"),
        pytest.param("earliest", 20, {"offset": 20}, 20, None, id="in the log, earliest"),
        pytest.param("latest", 20, {"offset": 20}, 20, None, id="in the log, latest"),
        # The client's position may be that of an earlier assignment, which it forgets on its own thread.
        pytest.param("stop", 20, {"consumed": 45, "offset": 20}, 20, None, id="nothing received yet"),
        # Nothing was promised of what was deleted before.
        pytest.param("stop", None, {"offset": 0}, 10, None, id="earliest moved on"),
        # As of a topic that is being deleted. The client gives no number for a logical offset.
        pytest.param("stop", None, {"offset": None}, 10, None, id="earliest was not found"),
    ],
)
def test_where_a_partition_goes_on_and_what_is_lost(
    action: str, received_next: int | None, report: Any, resumed_at: int, gap: tuple[int, int] | None
) -> None:
    """In a log of 10 to 50. The other partition goes on where it was, and the repair is done once."""
    stage, report = Stage(action), dict(report)
    if keys := report.pop("keys", ""):
        stage.bench.receive(stage[P0], keys)
    stage[P0].received.next_offset = received_next
    stage[P1].received.next_offset = 7
    stage.consumer.consumed = report.pop("consumed", -1001)
    report.pop("before", lambda _epoch: None)(stage[P0])
    stage.report(**report)
    assert stage.consumer.assigned == [{0: resumed_at, 1: 7}]
    assert stage[P0].received.next_offset == resumed_at
    found = [(one.wanted_offset, one.lost_records) for one in stage.reported.of(OffsetGap)]
    assert (found, stage.lost, stage.fatal) == ([] if gap is None else [gap], gap[1] if gap else 0, [])
    stage.turn()
    assert len(stage.consumer.assigned) == 1


def test_one_that_has_received_nothing_keeps_its_commits_leader_epoch() -> None:
    """By that its leader knows an unclean truncation; a position elsewhere than the commit has none."""
    stage = Stage("earliest")
    stage[P0].received.next_offset = 3
    stage[P1].received.next_offset = 7
    stage.committed |= {P0: Position(1, 3, leader_epoch=4), P1: Position(1, 7, leader_epoch=5)}
    stage.report()
    assert stage.consumer.assigned == [{0: 10, 1: 7}]
    assert stage.consumer.leader_epochs == {0: None, 1: 5}


def test_the_cooperative_protocol_touches_the_stuck_partition_alone() -> None:
    """The other one keeps what it has fetched."""
    stage = Stage("latest", cooperative=True)
    stage[P0].received.next_offset = 3
    stage.report()
    assert (stage.consumer.unassigned, stage.consumer.assigned) == ([0], [{0: 50}])
    assert stage.lost == 47


def test_nothing_is_assigned_in_a_turn_that_did_not_call_the_client() -> None:
    """It may have queued a revoke since, for whose answer it would take that: others would begin too soon."""
    stage = Stage("earliest", cooperative=True)
    stage[P0].received.next_offset = 3
    stage.report(was_called=False)
    stage.turn(was_called=False)
    assert (stage.consumer.unassigned, stage.consumer.assigned) == ([], [])
    stage.turn()
    assert (stage.consumer.unassigned, stage.consumer.assigned) == ([0], [{0: 10}])


def test_a_broker_that_does_not_answer_is_asked_again_later() -> None:
    """An outage is no reason to end, nor to ask with every turn; the size stays exact."""
    stage = Stage("stop")
    stage[P0].received.next_offset = 3
    stage.consumer.broken = "read_logs"
    stage.report()
    stage.turn()
    assert [problem.fatal for problem in stage.reported.of(ConnectionProblem)] == [False]
    assert stage.fatal == []
    stage.consumer.broken = None
    stage.turn()
    assert stage.fatal == []
    stage.bench.now_s += RETRY_S
    stage.turn()
    assert "7 records are gone" in str(stage.fatal[0])


def test_an_assignment_that_is_refused_is_tried_again() -> None:
    """A partition that is not assigned anew would stand still for ever, without a word."""
    stage = Stage("earliest")
    stage[P0].received.next_offset = 3
    stage.consumer.broken = "assign"
    stage.report()
    stage.consumer.broken = None
    stage.bench.now_s += RETRY_S
    stage.turn()
    assert stage.consumer.assigned[-1][0] == 10
    assert len(stage.reported.of(OffsetGap)) == 1


def test_a_partition_that_will_not_be_sought_is_assigned_anew() -> None:
    """Its position is that of its epoch."""
    stage = Stage("stop")
    stage[P0].received.next_offset = 20
    stage._repair.note_refused(P0, "it is not fetched")
    stage.turn()
    assert stage.consumer.assigned[0][0] == 20


def test_behind_a_batch_that_cannot_be_read_the_clients_position_counts_for_nothing() -> None:
    """It may have passed the batch, or lie where a wrong checksum has sent it."""
    stage = Stage("stop")
    stage.bench.receive(stage[P0], "a19")
    stage.consumer.consumed = 45
    stage.unreadable[P0] = Halted(stage[P0], 20, "it is damaged", is_batch=True, since_s=0.0, due_s=0.0)
    stage.report(offset=8459202870869259873)
    assert stage.consumer.assigned[0][0] == 20
    assert (stage.fatal, stage.reported) == ([], [])


@pytest.mark.parametrize("offset", [None, 20])
def test_a_log_that_was_cut_and_written_again_is_a_gap_though_it_has_the_offset(offset: int | None) -> None:
    """Other records are there now; reading on would miss them without a word. A report may have no offset."""
    stage = Stage("stop")
    stage[P0].received.next_offset = 20
    stage.report(offset=offset, text="Local: Partition log truncation detected")
    assert "its records have changed" in str(stage.fatal[0])


def test_a_way_back_waits_for_what_is_left_of_the_old_log() -> None:
    """The same offsets come again, so a new epoch begins, once nothing of the old one is unfinished.

    Meanwhile the other partition's repair assigns this one anew at its old place; its second report is
    no second gap.
    """
    stage = Stage("earliest")
    stage.bench.receive(stage[P0], "a60")
    stage[P1].received.next_offset = 3
    stage.consumer.logs[P1] = (5, 50)
    stage.report(P0, offset=61)
    assert stage.consumer.assigned == []
    stage.report(P1)
    assert stage.consumer.assigned == [{0: 61, 1: 5}]
    stage.report(P0, offset=61)
    assert (stage.begun, len(stage.consumer.assigned)) == ([], 1)
    stage.bench.work()
    stage.turn()
    assert stage.begun == [10]
    assert stage.consumer.assigned[-1] == {0: 10, 1: 5}
    assert [gap.partition for gap in stage.reported.of(OffsetGap)] == [P0, P1]


@pytest.mark.parametrize("is_another", [False, True])
def test_a_new_epoch_waits_for_outputs_of_the_old_one(*, is_another: bool) -> None:
    """Where an epoch ends its outputs are dropped, and no later one receives their records again."""
    stage = Stage("earliest")
    stage.bench.receive(stage[P0], "a60")
    entry = next(stage[P0].unfinished())
    stage.bench.work()
    output = Output(SimpleNamespace(), entry, "out", b"v", b"k", None, -1)
    stage.outputs.put(entry, output, 2)
    if is_another:
        stage.replace()
    else:
        stage.report(P0, offset=61)
    assert stage.begun == []
    with stage.outputs.lock:
        stage.outputs.let_go(stage.outputs.take(1))
    stage.turn()
    assert stage.begun == [10]


def test_a_partition_that_left_meanwhile_is_forgotten() -> None:
    """It is another member's gap now, or another epoch's."""
    stage = Stage("stop")
    stage[P0].received.next_offset = 3
    stage.consumer.broken = "read_logs"
    stage.report()
    del stage.owned[P0]
    stage.consumer.broken = None
    stage.bench.now_s += RETRY_S
    stage.turn()
    assert (stage.fatal, stage.reported.of(OffsetGap), stage.consumer.assigned) == ([], [], [])
    stage.report(P0)
    assert stage.consumer.assigned == []


@pytest.mark.parametrize("is_at_once", [False, True])
def test_an_answer_that_an_earlier_epoch_asked_for_decides_nothing(*, is_at_once: bool) -> None:
    """The log has grown meanwhile, by what another member has handled: its end of before is no gap."""
    stage = Stage("latest")
    late = Question(KnownLogs({P0: KnownLog(10, 50, 0.0)}, {}), Mock())
    with patch.object(stage.consumer, "read_logs", lambda _groups: late):
        stage[P0].received.next_offset = 20
        stage.report(offset=20)
    stage.bench.inboxes.ending.end([stage[P0]])
    stage.own(stage.bench.assign(0))
    stage.bench.receive(stage[P0], "a59")
    stage.consumer.logs[P0] = (10, 70)
    if not is_at_once:
        stage.turn()
    late.done.set()
    stage.report(offset=60)
    stage.turn()
    assert (stage.begun, stage.reported.of(OffsetGap)) == ([], [])
    assert stage.consumer.assigned == [{0: 60, 1: -2}]
