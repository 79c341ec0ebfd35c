"""What the drop-in's guard asks, believes and does about logs that were made anew: by hand, without a broker.

The mutants below take single guards out and have to be noticed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_STORED, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.consumer import log_guard
from ehkafka.consumer.log_guard import LogGuard
from ehkafka.consumer.positions import Returned
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_asker import Question
from ehkafka.positions.same_log import Recognised
from ehkafka.progress.metadata import LogFacts, moved
from ehkafka.records import TopicPartition
from tests.kit.mutant import take_out

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ehkafka.events import LogReplaced
    from ehkafka.positions.log_asker import Commits

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER_ID = b"\x01" * 16, b"\x02" * 16
COMMITTED = 50
LOG = LogBounds(0, 80)


class Program:
    """One guard with a clock and an asking thread of the test's own."""

    patch: pytest.MonkeyPatch

    def __init__(self, *, begins_anew: bool = True, **config: Any) -> None:
        self.now_s = 100.0
        self.questions: list[Question[Recognised]] = []
        self.readings: list[tuple[Collection[TopicPartition], Question[Commits]]] = []
        self.reported: list[LogReplaced] = []
        asker = SimpleNamespace(ask=self._ask, read_commits=self._read_commits, stop=lambda: None)
        self.patch.setattr(log_guard, "LogAsker", lambda *_parts: asker)
        self.patch.setattr(log_guard, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        config = {name if name == "oauth_cb" else name.replace("_", "."): v for name, v in config.items()}
        emit: Any = self.reported.append
        self.guard = LogGuard(config, Returned(), emit, begins_anew=begins_anew)

    def _ask(
        self, facts: Mapping[TopicPartition, LogFacts], *, reads: bool = True, wants_bounds: bool = False
    ) -> Question[Recognised]:
        self.questions.append(Question(Recognised(facts), Mock()))
        return self.questions[-1]

    def _read_commits(self, partitions: Collection[TopicPartition]) -> Question[Commits]:
        self.readings.append((partitions, Question(None, Mock())))
        return self.readings[-1][1]

    def check(self, after_s: float = 0.5) -> dict[TopicPartition, int]:
        """Let time pass and the polling thread come round."""
        self.now_s += after_s
        return self.guard.check(self.now_s)

    def answer_commits(self, *partitions: TopicPartition, can_read: bool = True) -> None:
        """Answer the last question for commits: these were made with the topic's first id."""
        text = moved(COMMITTED, LogFacts(topic_id=ID))
        commits = {p: KafkaPartition(*p, COMMITTED, text) for p in partitions}
        question = self.readings[-1][1]
        question.answer = commits if can_read else None
        question.done.set()

    def answer(self, topic_id: bytes, log: LogBounds = LOG) -> None:
        """Answer the last question about logs."""
        question = self.questions[-1]
        question.answer.ids = {"t": topic_id}
        question.answer.bounds = dict.fromkeys(question.answer.facts, log)
        question.done.set()

    def begin(self, *partitions: TopicPartition) -> None:
        """Begin these at the group's commits, and learn what those say."""
        self.guard.begun(partitions)
        self.check()
        self.answer_commits(*partitions)
        self.check()

    def replace(self, log: LogBounds = LOG) -> dict[TopicPartition, int]:
        """Let the broker say that the topic is another one; return where partitions are to begin anew."""
        self.answer(OTHER_ID, log)
        return self.check()


@pytest.fixture(autouse=True)
def patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs replace what they need to."""
    monkeypatch.setattr(Program, "patch", monkeypatch, raising=False)


def _a_new_log_begins_as_the_reset_says() -> None:
    program = Program(auto_offset_reset="Earliest")
    program.begin(P0)
    assert program.replace(LogBounds(7, 80)) == {P0: 7}
    (reported,) = program.reported
    assert (reported.action, reported.resumed_at, reported.next_offset, reported.lost_records) == (
        "earliest",
        7,
        COMMITTED,
        0,
    )


def _a_reset_of_error_begins_where_no_log_is() -> None:
    program = Program(auto_offset_reset="error")
    program.begin(P0)
    assert program.replace()[P0] > 2**60
    assert (program.reported[0].action, program.reported[0].resumed_at) == ("error", None)


def _a_reset_of_latest_would_skip_more_and_moves_nothing() -> None:
    program = Program()
    program.begin(P0)
    assert program.replace(LogBounds(10, 80)) == {}
    (reported,) = program.reported
    assert (reported.action, reported.resumed_at, reported.lost_records) == (
        "none",
        COMMITTED,
        COMMITTED - 10,
    )


def _a_record_behind_the_new_logs_end_is_not_counted_as_lost() -> None:
    program = Program()
    program.begin(P0)
    program.replace(LogBounds(10, 30))
    assert program.reported[0].lost_records == 20


def _a_position_stays_without_a_guard_of_ours() -> None:
    program = Program(begins_anew=False, auto_offset_reset="earliest")
    program.begin(P0)
    assert program.replace() == {}
    assert (program.reported[0].action, program.reported[0].resumed_at) == ("none", COMMITTED)


def _a_commit_that_cannot_be_read_is_asked_again_later() -> None:
    program = Program()
    program.guard.begun([P0])
    program.check()
    program.answer_commits(can_read=False)
    program.check()
    program.check(5.0)
    assert len(program.readings) == 1
    program.check(6.0)
    assert len(program.readings) == 2


def _a_commit_of_an_earlier_assignment_is_not_learned() -> None:
    program = Program()
    program.guard.begun([P0, P1])
    program.check()
    program.guard.ended([P0, P1])
    program.guard.begun([P0])
    program.answer_commits(P0, P1)
    program.check()
    assert program.guard.facts.carried(P0).topic_id is None
    assert program.guard.facts.carried(P1).topic_id is None
    assert [list(asked) for asked, _ in program.readings] == [[P0, P1], [P0]]


def _a_place_of_the_programs_own_belongs_to_no_log() -> None:
    program = Program(auto_offset_reset="earliest")
    program.begin(P0, P1)
    program.guard.placed([KafkaPartition("t", 0, 3), KafkaPartition("t", 1, OFFSET_STORED)])
    assert program.guard.facts.carried(P0).topic_id is None
    assert program.guard.facts.carried(P1).topic_id == ID


def _a_place_at_the_very_commit_keeps_its_log() -> None:
    program = Program(auto_offset_reset="earliest")
    program.begin(P0)
    program.guard.placed([KafkaPartition("t", 0, COMMITTED)])
    assert program.guard.facts.carried(P0).topic_id == ID


def _a_partition_that_is_not_ours_is_not_placed() -> None:
    program = Program()
    program.begin(P0)
    program.guard.placed([KafkaPartition("t", 1, 3)])
    assert P1 not in program.guard.facts.now()


def _a_broker_that_was_away_is_asked() -> None:
    program = Program()
    program.begin(P0)
    program.answer(ID)
    program.check()
    program.guard.note_error(KafkaError(KafkaError._TRANSPORT))
    program.check()
    assert len(program.questions) == 1
    program.guard.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    program.check()
    assert len(program.questions) == 2


def _a_program_with_its_own_tokens_is_left_alone() -> None:
    program = Program(begins_anew=False, oauth_cb=print)
    program.guard.begun([P0])
    assert program.check() == {}
    assert (program.readings, program.questions) == ([], [])
    assert not program.guard.is_on


def _a_check_comes_twice_a_second() -> None:
    program = Program()
    program.begin(P0)
    program.answer(OTHER_ID)
    assert program.check(0.1) == {}
    assert program.reported == []
    program.check()
    assert len(program.reported) == 1


def _a_replaced_log_is_reported_once() -> None:
    program = Program(auto_offset_reset="earliest")
    program.begin(P0)
    program.replace()
    program.guard.begun_anew(P0)
    program.guard.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    program.check()
    program.replace()
    assert len(program.reported) == 1
    assert program.guard.facts.carried(P0).topic_id == OTHER_ID


SCENARIOS: list[Callable[[], None]] = [one for name, one in globals().items() if name.startswith("_a_")]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__.strip("_"))
def test_a_drop_ins_logs_are_guarded(scenario: Callable[[], None]) -> None:
    """One decision each."""
    scenario()


@pytest.mark.parametrize(
    ("method", "guard", "without"),
    [
        (LogGuard.__init__, "begins_anew or ", "True or "),
        (LogGuard.placed, " and self.facts.epoch(partition) is not None", ""),
        (LogGuard.placed, "at.offset not in (OFFSET_STORED, OFFSET_INVALID) and ", ""),
        (LogGuard.placed, "if known != at.offset:", "if True:"),
        (LogGuard.placed, "self.facts.carry(partition, self.facts.carried(partition).of_no_log())", "pass"),
        (LogGuard.begun_anew, "self.facts.carry(partition, facts)", "pass"),
        (LogGuard.note_error, "if error.code() == ClientCode.ALL_BROKERS_DOWN:", "if True:"),
        (LogGuard.check, " or now_s < self._next_check_s", ""),
        (LogGuard._read_commits, "self._not_before_s = now_s + _AGAIN_S", "pass"),
        (LogGuard._read_commits, " if still.get(p) == epoch", ""),
        (LogGuard._replaced, " if self._begins_anew else None", ""),
        (LogGuard._replaced, "offset is None and ", ""),
        (LogGuard._replaced, "min(next_offset, log.end)", "next_offset"),
        (LogGuard._begin_at, 'if self._reset == "error" else None', ""),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_mutant(
    method: Callable[..., Any], guard: str, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above hold each of them."""
    take_out(monkeypatch, LogGuard, method.__name__, guard, without)
    assert any(map(_fails, SCENARIOS))


def _fails(scenario: Callable[[], None]) -> bool:
    try:
        scenario()
    except (AssertionError, KeyError):
        return True
    return False
