"""When a member asks whose log it reads, and what it believes of the answers: by hand, without a broker.

The mutants below take single guards out and have to be noticed.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from ehkafka.intake import log_watch
from ehkafka.intake.log_watch import STANDSTILL_S, LogWatch, OwnedLogs
from ehkafka.positions.log_asker import Question
from ehkafka.positions.same_log import Reading, Recognised
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition
from tests.kit.mutant import Mutant, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P0 = TopicPartition("t", 0)
ID, OTHER_ID = b"\x01" * 16, b"\x02" * 16
FIRST, LATER = (9, 1_000), (19, 2_000)


class Member:
    """One partition of a member: what its commits carry, what it has finished, its questions, its clock."""

    def __init__(self, facts: LogFacts | None = None) -> None:
        self.facts = facts or LogFacts()
        self.now_s = 0.0
        self.questions: list[Question[Recognised]] = []
        self.epoch = SimpleNamespace(
            number=1, received=SimpleNamespace(witness=None, batches=SimpleNamespace(last=None))
        )
        saver = SimpleNamespace(carried=lambda _partition: self.facts, carry=self._carry)
        owned: Any = _Owned({P0: (None, self.epoch)})
        owned.saver = saver
        asker: Any = SimpleNamespace(ask=self._ask)
        self.watch = LogWatch(OwnedLogs(owned), asker, lambda: self.now_s)

    def _carry(self, _partition: TopicPartition, facts: LogFacts) -> None:
        self.facts = facts

    def _ask(
        self, facts: Mapping[TopicPartition, LogFacts], *, reads: bool = True, wants_bounds: bool = False
    ) -> Question[Recognised]:
        self.questions.append(Question(Recognised(facts), Mock()))
        return self.questions[-1]

    def check(self, after_s: float = 0.5) -> dict[TopicPartition, str]:
        """Let time pass and the poll thread come round."""
        self.now_s += after_s
        return self.watch.check()

    def answer(self, topic_id: bytes | None = None, reading: Reading | None = None) -> None:
        """Answer the last question."""
        question = self.questions[-1]
        question.answer.ids = {} if topic_id is None else {P0.topic: topic_id}
        question.answer.readings = {} if reading is None else {P0: reading}
        question.done.set()

    def receive(self, leader_epoch: int) -> None:
        """Receive a record of this epoch's leader."""
        self.epoch.received.batches.last = SimpleNamespace(leader_epoch=leader_epoch)


class _Owned(dict[TopicPartition, tuple[None, Any]]):
    saver: Any


def _another_id_is_reported() -> None:
    member = Member(LogFacts(topic_id=ID))
    member.check()
    member.answer(OTHER_ID)
    assert "had the id" in member.check()[P0]
    assert member.facts.topic_id == ID, "FACT: the new log's id was taken for the old position"


def _a_first_id_with_nothing_finished_is_believed() -> None:
    member = Member()
    member.watch.assigned()
    member.answer(ID)
    assert member.check() == {}
    assert member.facts.topic_id == ID


def _a_first_id_behind_a_finished_record_is_not() -> None:
    """The answer may be of a log made anew after that record, so the record is read with the next answer."""
    member = Member()
    member.watch.assigned()
    member.epoch.received.witness = FIRST
    member.answer(ID)
    member.check()
    assert member.facts == LogFacts(witness=FIRST), "FACT: an id was believed that came after a record"
    assert member.questions[-1].answer.facts[P0].witness == FIRST
    member.answer(ID, Reading(FIRST))
    member.check()
    assert member.facts.topic_id == ID


def _a_witness_stays_until_it_was_seen_again() -> None:
    member = Member(LogFacts(witness=FIRST))
    member.epoch.received.witness = LATER
    member.check()
    member.answer()
    member.check()
    assert member.facts.witness == FIRST, "FACT: a record of an unproved log became the witness"
    member.check(60.0)
    member.answer(None, Reading(FIRST))
    member.check()
    assert member.facts.witness == LATER


def _silence_is_asked_again_but_not_at_once() -> None:
    member = Member(LogFacts(topic_id=ID))
    member.check()
    member.answer()
    member.check()
    assert len(member.questions) == 1, "FACT: a silent broker is asked without a pause"
    member.check(4.0)
    member.check(4.0)
    assert len(member.questions) == 2


def _who_stood_still_asks() -> None:
    member = Member(LogFacts(topic_id=ID))
    member.check()
    member.answer(ID)
    member.check()
    assert len(member.questions) == 1
    member.check(STANDSTILL_S + 1.0)
    assert len(member.questions) == 2, "FACT: a member that was frozen went on without a question"


def _an_older_leader_asks() -> None:
    member = Member(LogFacts(topic_id=ID))
    member.receive(7)
    member.check()
    member.answer(ID)
    member.check()
    member.receive(8)
    member.check()
    assert len(member.questions) == 1
    member.receive(0)
    member.check()
    assert len(member.questions) == 2, "FACT: a leader's epoch went down, and no question was put"


def _an_answer_of_another_epoch_counts_for_nothing() -> None:
    member = Member(LogFacts(topic_id=ID))
    member.check()
    member.epoch.number = 2
    member.answer(OTHER_ID)
    assert member.check() == {}, "FACT: a new position was judged by the old one's facts"


def _each_refresh_asks() -> None:
    member = Member(LogFacts(topic_id=ID))
    member.watch.refresh_s = 10.0
    member.watch.assigned()
    member.answer(ID)
    for _ in range(22):
        member.check()
    assert len(member.questions) == 2


SCENARIOS = (
    _another_id_is_reported,
    _a_first_id_with_nothing_finished_is_believed,
    _a_first_id_behind_a_finished_record_is_not,
    _a_witness_stays_until_it_was_seen_again,
    _silence_is_asked_again_but_not_at_once,
    _who_stood_still_asks,
    _an_older_leader_asks,
    _an_answer_of_another_epoch_counts_for_nothing,
    _each_refresh_asks,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__.strip("_"))
def test_a_log_is_watched(scenario: Callable[[], None]) -> None:
    """Row 23, one decision each."""
    scenario()


MUTANTS = r"""
LogWatch._prove: an id is believed that came behind a finished record
    if carried.witness is not None: -> if False:
    by _a_first_id_behind_a_finished_record_is_not
LogWatch._prove: what was not looked at is proved
    if not was_named and not was_read: -> if False:
    by _a_witness_stays_until_it_was_seen_again
LogWatch._pin: each record that is finished becomes the witness
    if facts.witness is None and log.witness is not None: -> if log.witness is not None:
    by _a_witness_stays_until_it_was_seen_again
LogWatch._judge: the facts of an epoch that has ended judge the next one
    or log.epoch != self._samples[partition].epoch ->
    by _an_answer_of_another_epoch_counts_for_nothing
LogWatch._judge: another log is taken for the same one
    if reason is None: -> if True:
    by _another_id_is_reported
LogWatch.check: a thread that was frozen asks nothing
    now_s - self._checked_s > self._standstill_s or ->
    by _who_stood_still_asks
LogWatch.check: an older leader's records mean nothing
    or self._went_down(logs) ->
    by _an_older_leader_asks
LogWatch.check: a refresh asks nothing
    or now_s >= self._next_s ->
    by _each_refresh_asks
LogWatch._ask_later: a silent broker is asked without a pause
    self._not_before_s = now_s + self._again_s -> pass
    by _silence_is_asked_again_but_not_at_once
LogWatch._ask_later: a silent broker is asked once
    self._is_due = True -> pass
    by _silence_is_asked_again_but_not_at_once
"""


@pytest.mark.parametrize("mutant", table(MUTANTS, print, log_watch, sys.modules[__name__]), ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenarios above hold each of them."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
